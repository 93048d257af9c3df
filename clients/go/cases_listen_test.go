package encke

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
)

type lineCase struct {
	Name   string            `json:"name"`
	SSE    []string          `json:"sse"`
	NDJSON []string          `json:"ndjson"`
	Told   []json.RawMessage `json:"told"`
	Place  string            `json:"place"`
	Fails  string            `json:"fails"`
}

// pieces is a body that comes in these pieces, one a read, as the answer to each request.
type pieces []string

func (body *pieces) Read(into []byte) (int, error) {
	for len(*body) > 0 && (*body)[0] == "" {
		*body = (*body)[1:]
	}
	if len(*body) == 0 {
		return 0, io.EOF
	}
	count := copy(into, (*body)[0])
	(*body)[0] = (*body)[0][count:]
	return count, nil
}

func (body *pieces) Close() error { return nil }

func (body *pieces) RoundTrip(*http.Request) (*http.Response, error) {
	head := http.Header{"Content-Type": {ndjson}, "Encke-Next": {"01"}}
	return &http.Response{StatusCode: 200, Header: head, Body: body}, nil
}

// splits are the text at each place in two, and byte by byte.
func splits(text string) []pieces {
	var all []pieces
	var bytes pieces
	for at := range len(text) {
		all = append(all, pieces{text[:at], text[at:]})
		bytes = append(bytes, text[at:at+1])
	}
	return append(all, bytes)
}

func TestLines(t *testing.T) {
	runCases(t, "lines", func(t *testing.T, one lineCase) {
		for _, pieces := range splits(strings.Join(one.NDJSON, "\n")) {
			from := fmt.Sprintf("%q", pieces)
			listener := &Listener{IDs: []string{"bob"}, HTTP: &http.Client{Transport: &pieces}}
			told := []any{}
			_, err := listener.stream(context.Background(), func() {}, func(event Event, err error) bool {
				if errors.Is(err, ErrGap) {
					told = append(told, "gap")
				} else {
					text, _ := json.Marshal(event)
					told = append(told, decoded(t, text))
				}
				return true
			})
			expected := []any{}
			for _, text := range one.Told {
				expected = append(expected, decoded(t, text))
			}
			if !reflect.DeepEqual(told, expected) || listener.Place() != one.Place {
				t.Fatalf("%v at %s, from %s", told, listener.Place(), from)
			}
			if (one.Fails == "") != errors.Is(err, io.EOF) || !strings.Contains(err.Error(), one.Fails) {
				t.Fatalf("%v, from %s", err, from)
			}
		}
	})
}

func decoded(t *testing.T, text []byte) any {
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatal(err)
	}
	return value
}

type addressCase struct {
	Name  string   `json:"name"`
	Base  string   `json:"base"`
	IDs   []string `json:"ids"`
	Path  []string `json:"path"`
	Query []string `json:"query"`
}

func TestAddresses(t *testing.T) {
	runCases(t, "addresses", func(t *testing.T, one addressCase) {
		server := play(t, []played{{Stream: []string{"02"}}})
		listener := &Listener{URL: server.URL + one.Base, IDs: one.IDs}
		for _, err := range listener.Listen(testContext(t)) {
			if err != nil {
				t.Error(err)
			}
			break
		}
		path, query, _ := strings.Cut(server.all()[0].target, "?")
		var parts []string
		for _, part := range strings.Split(path, "/")[1:] {
			name, err := url.PathUnescape(part)
			if err != nil {
				t.Error(err)
			}
			parts = append(parts, name)
		}
		values, err := url.ParseQuery(query)
		if err != nil || !reflect.DeepEqual(parts, one.Path) || !equal(values["id"], one.Query) {
			t.Errorf("%q and %q, %v", parts, values, err)
		}
	})
}

type listenCase struct {
	Name    string       `json:"name"`
	After   string       `json:"after"`
	Tokens  []*string    `json:"tokens"`
	Answers []played     `json:"answers"`
	Heard   []string     `json:"heard"`
	Asked   []any        `json:"asked"`
	Shown   []any        `json:"shown"`
	Waits   []int64      `json:"waits"`
	Place   *string      `json:"place"`
	Refused *refusedCase `json:"refused"`
}

func TestResumes(t *testing.T)  { runCases(t, "resumes", listenTo) }
func TestRefusals(t *testing.T) { runCases(t, "refusals", listenTo) }
func TestTokens(t *testing.T)   { runCases(t, "tokens", listenTo) }

// listenTo plays a case to a listener, until all is heard that it names, or the refusal.
func listenTo(t *testing.T, one listenCase) {
	waits := fixed(t, 0.5)
	server := play(t, one.Answers)
	listener := &Listener{URL: server.URL, IDs: []string{"bob"}, After: one.After}
	if one.Tokens != nil {
		listener.Token = func(context.Context) (string, error) {
			token := one.Tokens[0]
			one.Tokens = one.Tokens[1:]
			if token == nil {
				return "", errors.New("not now")
			}
			return *token, nil
		}
	}
	var heard []string
	var last error
	for event, err := range listener.Listen(testContext(t)) {
		switch {
		case errors.Is(err, ErrGap):
			heard = append(heard, "gap")
		case err != nil:
			last = err
		default:
			heard = append(heard, event.ID)
		}
		if one.Refused == nil && len(heard) == len(one.Heard) {
			break
		}
	}
	if !equal(heard, one.Heard) {
		t.Errorf("heard %q, not %q: %v", heard, one.Heard, last)
	}
	if one.Refused != nil {
		// One that passes is not told.
		one.Refused.Final = true
		if !one.Refused.is(last) {
			t.Error(last)
		}
	} else if last != nil {
		t.Error(last)
	}
	if one.Asked != nil && !reflect.DeepEqual(server.fields("Last-Event-ID"), one.Asked) {
		t.Errorf("asked from %q", server.fields("Last-Event-ID"))
	}
	if one.Shown != nil && !reflect.DeepEqual(server.fields("Authorization"), one.Shown) {
		t.Errorf("shown %q", server.fields("Authorization"))
	}
	if one.Waits != nil && !reflect.DeepEqual(waits(), one.Waits) {
		t.Errorf("waits of %v ms", waits())
	}
	if one.Place != nil && listener.Place() != *one.Place {
		t.Errorf("at %s", listener.Place())
	}
	if len(server.all()) != len(one.Answers) {
		t.Errorf("%d requests", len(server.all()))
	}
}
