package encke

import (
	"encoding/json"
	"maps"
	"net/url"
	"reflect"
	"strings"
	"testing"
)

type readCase struct {
	Name    string   `json:"name"`
	Members string   `json:"members"`
	Events  string   `json:"events"`
	Answers []played `json:"answers"`
	Options struct {
		After       string `json:"after"`
		Before      string `json:"before"`
		Limit       int    `json:"limit"`
		NewestFirst bool   `json:"newest_first"`
	} `json:"options"`
	Path    []string          `json:"path"`
	Query   map[string]string `json:"query"`
	Told    json.RawMessage   `json:"told"`
	Refused *refusedCase      `json:"refused"`
}

func TestReads(t *testing.T) {
	runCases(t, "reads", func(t *testing.T, one readCase) {
		fixed(t, 0.5)
		server := play(t, one.Answers)
		client := &Client{API: server.URL, Key: "secret", HTTP: alone(t)}
		var told any
		var err error
		if one.Members != "" {
			told, err = client.Members(testContext(t), one.Members)
		} else {
			told, err = client.Events(testContext(t), one.Events, EventsOf(one.Options))
		}
		if one.Refused != nil {
			if !one.Refused.is(err) {
				t.Error(err)
			}
		} else if err != nil {
			t.Error(err)
		} else if got, _ := json.Marshal(told); !sameJSON(t, got, one.Told) {
			t.Errorf("%s, not %s", got, one.Told)
		}
		for _, asked := range server.all() {
			target, _ := url.Parse(asked.target)
			var path []string
			for _, part := range strings.Split(target.EscapedPath(), "/")[1:] {
				part, _ := url.PathUnescape(part)
				path = append(path, part)
			}
			query := map[string]string{}
			for name := range target.Query() {
				query[name] = target.Query().Get(name)
			}
			if !equal(path, one.Path) || !maps.Equal(query, one.Query) {
				t.Error(asked.target)
			}
		}
		if len(server.all()) != len(one.Answers) {
			t.Errorf("%d requests", len(server.all()))
		}
	})
}

// sameJSON says whether two texts are the same value, where an empty text is null.
func sameJSON(t *testing.T, one, other []byte) bool {
	t.Helper()
	var values [2]any
	for at, text := range [][]byte{one, other} {
		if err := json.Unmarshal(text, &values[at]); err != nil {
			t.Fatal(err)
		}
		if page, ok := values[at].(map[string]any); ok && page["next"] == "" {
			page["next"] = nil
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}
