package encke

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

// The cases that all clients have in common; their README says what each member is for.
const casesFolder = "../cases"

var casesRun = []string{
	"addresses", "lines", "refusals", "resumes", "send_streams", "sends", "tokens", "waits",
}

func TestEachFileOfCasesIsRun(t *testing.T) {
	files, err := filepath.Glob(casesFolder + "/*.json")
	var names []string
	for _, file := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(file), ".json"))
	}
	if err != nil || !reflect.DeepEqual(names, casesRun) {
		t.Errorf("%v, not %v: %v", names, casesRun, err)
	}
}

// runCases runs each case of a file as a test of its name.
func runCases[Case any](t *testing.T, subject string, run func(*testing.T, Case)) {
	text, err := os.ReadFile(filepath.Join(casesFolder, subject+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var raw []json.RawMessage
	if err := json.Unmarshal(text, &raw); err != nil || len(raw) == 0 {
		t.Fatal(subject, err)
	}
	for _, text := range raw {
		var named struct{ Name string }
		var one Case
		decoder := json.NewDecoder(bytes.NewReader(text))
		// A member that nobody reads would be a promise that nobody keeps.
		decoder.DisallowUnknownFields()
		if err := errors.Join(json.Unmarshal(text, &named), decoder.Decode(&one)); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		t.Run(named.Name, func(t *testing.T) { run(t, one) })
	}
}

// played is an answer of the server.
type played struct {
	Status  int               `json:"status"`
	Head    map[string]string `json:"head"`
	Next    string            `json:"next"`
	Gap     bool              `json:"gap"`
	Stream  []string          `json:"stream"`
	Problem json.RawMessage   `json:"problem"`
	JSON    json.RawMessage   `json:"json"`
	Type    string            `json:"type"`
	Body    string            `json:"body"`
	Lines   []string          `json:"lines"`
	End     string            `json:"end"`
}

// content is the type and the text of the body; without a type there is no answer at all.
func (answer played) content() (kind, body string) {
	switch {
	case answer.Stream != nil:
		var lines strings.Builder
		for _, item := range answer.Stream {
			lines.WriteString(line(item))
		}
		return ndjson, lines.String()
	case answer.Problem != nil:
		return "application/problem+json", string(answer.Problem)
	case answer.JSON != nil:
		return "application/json", string(answer.JSON)
	case answer.Lines != nil:
		return ndjson, strings.Join(answer.Lines, "\n")
	}
	return answer.Type, answer.Body
}

// line is an item of a stream as NDJSON.
func line(item string) string {
	id, isHalf := strings.CutPrefix(item, "half ")
	event := `{"id":"` + id + `","about":"bob","data":"` + item + `"}`
	switch {
	case item == "keep-alive":
		return "\n"
	case strings.HasPrefix(item, "gap"):
		return "{\"gap\":true}\n"
	case strings.HasPrefix(item, "{"):
		return item + "\n"
	case isHalf:
		return event[:len(event)-5]
	}
	return event + "\n"
}

func (answer played) write(w http.ResponseWriter) {
	kind, body := answer.content()
	if kind == "" {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", kind)
	for name, value := range answer.Head {
		w.Header().Set(name, value)
	}
	if answer.Next != "" {
		w.Header().Set("Encke-Next", answer.Next)
	}
	if answer.Gap {
		w.Header().Set("Encke-Gap", "true")
	}
	w.WriteHeader(max(answer.Status, 200))
	_, _ = io.WriteString(w, body)
	w.(http.Flusher).Flush()
}

// asked is a request as it came.
type asked struct {
	target string
	head   http.Header
	body   []byte
}

// player gives one answer after the other, and keeps what it was asked.
type player struct {
	*httptest.Server
	mutex sync.Mutex
	asked []asked
}

func play(t *testing.T, answers []played) *player {
	player := &player{}
	player.Server = httptest.NewServer(http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			player.mutex.Lock()
			at := len(player.asked)
			player.asked = append(player.asked, asked{r.RequestURI, r.Header, body})
			player.mutex.Unlock()
			if at >= len(answers) {
				// It is counted, and the test fails by that.
				panic(http.ErrAbortHandler)
			}
			answer := answers[at]
			answer.write(w)
			isStream := answer.Stream != nil
			switch {
			case isStream && at == len(answers)-1:
				// The last stream stays open for as long as the client does.
				<-r.Context().Done()
			case answer.End == "cut" || isStream && answer.End == "":
				panic(http.ErrAbortHandler)
			}
		}))
	t.Cleanup(player.Close)
	return player
}

// all are the requests that came, in their order.
func (player *player) all() []asked {
	player.mutex.Lock()
	defer player.mutex.Unlock()
	return player.asked
}

// fields is a field of each request, nil where it has none.
func (player *player) fields(name string) []any {
	var told []any
	for _, asked := range player.all() {
		if value := asked.head.Get(name); value != "" {
			told = append(told, value)
		} else {
			told = append(told, nil)
		}
	}
	return told
}

// fixed gives chance a value and lets no wait take time; what it returns lists them, in ms.
func fixed(t *testing.T, value float64) func() []int64 {
	var mutex sync.Mutex
	var waits []int64
	realChance, realPause := chance, pause
	chance = func() float64 { return value }
	pause = func(ctx context.Context, duration time.Duration) error {
		mutex.Lock()
		defer mutex.Unlock()
		waits = append(waits, duration.Milliseconds())
		return ctx.Err()
	}
	t.Cleanup(func() { chance, pause = realChance, realPause })
	return func() []int64 {
		mutex.Lock()
		defer mutex.Unlock()
		return waits
	}
}

type waitCase struct {
	Name    string  `json:"name"`
	Tries   int     `json:"tries"`
	FirstMs int64   `json:"first_ms"`
	MostMs  int64   `json:"most_ms"`
	AskedMs int64   `json:"asked_ms"`
	Chance  float64 `json:"chance"`
	WaitMs  int64   `json:"wait_ms"`
}

func TestWaits(t *testing.T) {
	ms := func(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }
	runCases(t, "waits", func(t *testing.T, one waitCase) {
		fixed(t, one.Chance)
		wait := backoff(one.Tries, ms(one.FirstMs), ms(one.MostMs), ms(one.AskedMs))
		if wait != ms(one.WaitMs) {
			t.Errorf("%v, not %v", wait, ms(one.WaitMs))
		}
	})
}

type sendCase struct {
	Also    []string     `json:"also"`
	Event   string       `json:"event"`
	Except  string       `json:"except"`
	Name    string       `json:"name"`
	Key     string       `json:"key"`
	Answers []played     `json:"answers"`
	Waits   []int64      `json:"waits"`
	Sent    *sentCase    `json:"sent"`
	Refused *refusedCase `json:"refused"`
	Fails   bool         `json:"fails"`
}

// sentCase has names of its own, so that a case sees a wrong one of Sent's.
type sentCase struct {
	Delivered int    `json:"delivered"`
	AtLeast   bool   `json:"at_least"`
	ID        string `json:"id"`
}

type refusedCase struct {
	Status int    `json:"status"`
	Says   string `json:"says"`
	Final  bool   `json:"final"`
}

// is says whether err is that refusal.
func (expected *refusedCase) is(err error) bool {
	var refused *Refused
	return expected != nil && errors.As(err, &refused) && refused.Status == expected.Status &&
		refused.IsFinal() == expected.Final && strings.Contains(refused.Error(), expected.Says)
}

func TestSends(t *testing.T) {
	runCases(t, "sends", func(t *testing.T, one sendCase) {
		waits := fixed(t, 0.5)
		server := play(t, one.Answers)
		client := &Client{API: server.URL, Key: "secret", HTTP: alone(t)}
		message := Message{
			About: "rj", Data: map[string]int{"n": 1}, Key: one.Key, Also: one.Also, Event: one.Event,
			Except: one.Except,
		}
		sent, err := client.SendMessage(testContext(t), message)
		var refused *Refused
		switch {
		case err == nil && (one.Sent == nil || sent != Sent(*one.Sent)):
			t.Error(sent)
		case errors.As(err, &refused) && !one.Refused.is(err):
			t.Error(err)
		case err != nil && refused == nil && !one.Fails:
			t.Error(err)
		}
		for _, asked := range server.all() {
			ensureSent(t, asked, "application/json", message)
		}
		if len(server.all()) != len(one.Answers) || !equal(waits(), one.Waits) {
			t.Errorf("%d requests, and waits of %v ms", len(server.all()), waits())
		}
	})
}

// alone has no connection that another test has left: one that is reused is asked once more by
// net/http itself.
func alone(t *testing.T) *http.Client {
	transport := &http.Transport{DisableKeepAlives: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

func equal[T any](one, other []T) bool {
	return len(one) == len(other) && (len(one) == 0 || reflect.DeepEqual(one, other))
}

// ensureSent looks at what a request brought: messages, one a line.
func ensureSent(t *testing.T, asked asked, kind string, messages ...Message) {
	t.Helper()
	var lines strings.Builder
	for _, message := range messages {
		data, _ := json.Marshal(message.Data)
		key := ""
		if message.Key != "" {
			key = `,"key":"` + message.Key + `"`
		}
		about, event, except := `"`+message.About+`"`, "", ""
		if len(message.Also) > 0 {
			about = `["` + strings.Join(append([]string{message.About}, message.Also...), `","`) + `"]`
		}
		if message.Event != "" {
			event = `,"event":"` + message.Event + `"`
		}
		if message.Except != "" {
			except = `,"except":"` + message.Except + `"`
		}
		further := key + event + except
		fmt.Fprintf(&lines, `{"about":%s,"data":%s%s}`+"\n", about, data, further)
	}
	body := strings.TrimSuffix(string(asked.body), "\n")
	if asked.target != "/send" || body != strings.TrimSuffix(lines.String(), "\n") {
		t.Errorf("%s: %s, not %s", asked.target, asked.body, lines.String())
	}
	if asked.head.Get("Authorization") != "Bearer secret" || asked.head.Get("Content-Type") != kind {
		t.Error(asked.head)
	}
}

type sendStreamCase struct {
	Name     string          `json:"name"`
	Messages int             `json:"messages"`
	Status   int             `json:"status"`
	Problem  json.RawMessage `json:"problem"`
	Lines    []string        `json:"lines"`
	End      string          `json:"end"`
	Told     []struct {
		sentCase
		refusedCase
		Line int `json:"line"`
	} `json:"told"`
	Refused *refusedCase `json:"refused"`
	Ended   *struct {
		Answered int    `json:"answered"`
		Says     string `json:"says"`
	} `json:"ended"`
}

func TestSendStreams(t *testing.T) {
	runCases(t, "send_streams", func(t *testing.T, one sendStreamCase) {
		answer := played{
			Status: one.Status, Problem: one.Problem, Lines: one.Lines, End: one.End,
		}
		server := play(t, []played{answer})
		client := &Client{API: server.URL, Key: "secret"}
		var sent []Message
		for n := range one.Messages {
			sent = append(sent, Message{About: "rj", Data: n, Key: []string{"", "k"}[n%2]})
		}
		told := 0
		var ended *StreamEnded
		for answered, err := range client.SendStream(testContext(t), each(sent)) {
			var refused *Refused
			if errors.As(err, &ended) {
				break
			}
			if told == len(one.Told) {
				t.Fatal(answered, err)
			}
			expected := one.Told[told]
			isRefused := errors.As(err, &refused)
			if isRefused != (expected.Status != 0) || answered != Sent(expected.sentCase) ||
				isRefused && (!expected.is(err) || refused.Line != expected.Line) {
				t.Errorf("%v, %v, not %v", answered, err, expected)
			}
			told++
		}
		switch {
		case told != len(one.Told):
			t.Errorf("%d answers", told)
		case ended == nil:
			if one.Ended != nil || one.Refused != nil {
				t.Error("the end was not told")
			}
		case one.Refused != nil:
			if !one.Refused.is(ended.Cause) || ended.Answered != 0 {
				t.Error(ended)
			}
		case one.Ended == nil || ended.Answered != one.Ended.Answered ||
			!strings.Contains(ended.Error(), one.Ended.Says):
			t.Error(ended)
		}
		ensureSent(t, server.all()[0], ndjson, sent...)
	})
}

func each(messages []Message) func(func(Message) bool) {
	return func(yield func(Message) bool) {
		for _, message := range messages {
			if !yield(message) {
				return
			}
		}
	}
}
