package encke

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"
)

// leftOut are operations that an application does not call, and why.
var leftOut = map[string]string{
	"metrics":            "for Prometheus",
	"presence":           "a stream of its own: curl -N, or a webhook, as docs/presence.md has them",
	"healthz":            "for what starts and stops the server",
	"createStream":       "Durable Streams have clients of their own",
	"appendToStream":     "Durable Streams have clients of their own",
	"readStream":         "Durable Streams have clients of their own",
	"headOfStream":       "Durable Streams have clients of their own",
	"deleteStream":       "Durable Streams have clients of their own",
	"openapi":            "for programs that read it",
	"tune":               "`encke tune` asks it",
	"graphStats":         "`encke graph stats --api` asks it",
	"backupGraph":        "`encke graph backup --api` asks it",
	"exportGraph":        "`encke graph export --api` asks it",
	"publishUpdate":      "Mercure has clients of its own",
	"hubSubscriptions":   "Mercure has clients of its own",
	"hubSubscription":    "Mercure has clients of its own",
	"hubMetadata":        "Mercure has clients of its own",
	"triggerChannels":    "Pusher Channels has clients of its own",
	"triggerBatch":       "Pusher Channels has clients of its own",
	"channels":           "Pusher Channels has clients of its own",
	"channel":            "Pusher Channels has clients of its own",
	"triggerChannel":     "Pusher Channels has clients of its own",
	"channelUsers":       "Pusher Channels has clients of its own",
	"appConnections":     "Pusher Channels has clients of its own",
	"terminateUser":      "Pusher Channels has clients of its own",
	"terminateUserByKey": "Pusher Channels has clients of its own",
	"dashboard":          "a page",
	"loginPage":          "a page",
	"login":              "a page's",
	"endSession":         "a page's",
	"dashboardScript":    "a page's",
	"dashboardStyle":     "a page's",
	"dashboardIcon":      "a page's",
	"dashboardFacts":     "a page's",
}

func TestEachOperationAndShapeOfOpenAPIIsKnown(t *testing.T) {
	answer, err := http.Get("http://" + start(t).api + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var told struct {
		Paths      map[string]map[string]json.RawMessage
		Components struct {
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	if err := json.NewDecoder(answer.Body).Decode(&told); err != nil {
		t.Fatal(err)
	}
	operations := map[string]bool{}
	for _, path := range told.Paths {
		for _, raw := range path {
			var operation struct{ OperationID string }
			if json.Unmarshal(raw, &operation) == nil && operation.OperationID != "" {
				operations[operation.OperationID] = true
			}
		}
	}
	if len(operations) < 15 {
		t.Errorf("the server tells its operations: %v", operations)
	}
	for operation := range operations {
		if calls[operation] == "" && leftOut[operation] == "" {
			t.Errorf("give %q a method, or a reason", operation)
		}
	}
	for operation, method := range calls {
		if _, ok := reflect.TypeFor[*Client]().MethodByName(method); !ok || !operations[operation] {
			t.Errorf("%s is %s: both should be there", operation, method)
		}
	}
	shapes := map[string]any{
		"Event": Message{}, "Sent": Sent{}, "Subscription": Subscription{}, "Page": Page{},
		"Connections": Connections{}, "Closed": Closed{}, "Revocation": Revocation{},
	}
	for name, shape := range shapes {
		fields := map[string]bool{}
		for _, field := range reflect.VisibleFields(reflect.TypeOf(shape)) {
			fields[strings.Split(field.Tag.Get("json"), ",")[0]] = true
		}
		// Further ids stand in "about".
		delete(fields, "-")
		properties := told.Components.Schemas[name].Properties
		// A string as data is heard as a text is.
		delete(properties, "text")
		for property := range properties {
			if !fields[property] {
				t.Errorf("%s has %q", name, property)
			}
		}
		if len(fields) != len(properties) {
			t.Errorf("%s: %v, not %v", name, fields, properties)
		}
	}
}

func TestSubscriptionsAreKeptListedAndRemoved(t *testing.T) {
	ctx, server := testContext(t), start(t)
	client := server.client()
	pairs := make([]Subscription, 2500)
	for n := range pairs {
		pairs[n] = Subscription{fmt.Sprint("u", n), "ря"}
	}
	for _, expected := range []int{2500, 0} {
		if added, err := client.AddSubscriptions(ctx, pairs...); added != expected || err != nil {
			t.Fatalf("added %d, not %d: %v", added, expected, err)
		}
	}
	server.kill()
	server.start()
	names := map[string]bool{}
	for name, err := range client.Subscribers(ctx, "ря") {
		if err != nil {
			t.Fatal(err)
		}
		names[name] = true
	}
	if len(names) != 2500 {
		t.Errorf("%d, not three pages of a thousand", len(names))
	}
	for _, expected := range []bool{true, false} {
		if done, err := client.Unsubscribe(ctx, "u1", "ря"); done != expected || err != nil {
			t.Errorf("removed: %v, %v", done, err)
		}
	}
	for name, err := range client.Subscriptions(ctx, "u1") {
		t.Errorf("none is left, not %q: %v", name, err)
	}
}

func TestEventWithAKeyIsPostedOnce(t *testing.T) {
	ctx, client := testContext(t), start(t).client()
	first, err := client.Send(ctx, "rj", 1, "8e03978e")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := client.Send(ctx, "rj", 1, "8e03978e"); again != first || err != nil {
		t.Errorf("%v, not %v: %v", again, first, err)
	}
	if other, err := client.Send(ctx, "rj", 1, ""); other.ID == first.ID || err != nil {
		t.Errorf("without a key it is another: %v, %v", other, err)
	}
	_, err = client.Send(ctx, "rj", 2, "8e03978e")
	var refused *Refused
	if !errors.As(err, &refused) || refused.Status != 422 || !refused.IsFinal() {
		t.Errorf("%v", err)
	}
}

func TestAPIWithKeysRefusesWhoHasNoneAndServesWhoHas(t *testing.T) {
	ctx, server := testContext(t), start(t)
	key := server.run("key", "new", "--scope", "send", "--data", server.data)
	client := server.client()
	status := func(err error) int {
		var refused *Refused
		if !errors.As(err, &refused) {
			return 0
		}
		return refused.Status
	}
	if _, err := client.Send(ctx, "rj", 1, ""); status(err) != 401 {
		t.Errorf("without a key: %v", err)
	}
	for _, err := range client.SendStream(ctx, messages(1)) {
		if status(err) != 401 {
			t.Errorf("without a key, as a stream: %v", err)
		}
	}
	client.Key = key
	if _, err := client.Send(ctx, "rj", 1, ""); err != nil {
		t.Errorf("with the key: %v", err)
	}
	if _, err := client.Subscribe(ctx, "bob", "rj"); status(err) != 403 {
		t.Errorf("beyond its scope: %v", err)
	}
}

func TestKeyIsNotShown(t *testing.T) {
	ctx := testContext(t)
	client := &Client{API: "http://127.0.0.1:1", Key: "hidden\n"}
	_, err := client.Send(ctx, "rj", 1, "k")
	asJSON, _ := json.Marshal(client)
	for _, client := range []any{client, *client} {
		said := fmt.Sprintf("%v %+v %#v %s %v %s", client, client, client, client, err, asJSON)
		if err == nil || strings.Contains(said, "hidden") {
			t.Error(said)
		}
	}
	if !strings.Contains(err.Error(), "Key has other characters") || mayRepeat(err, true) {
		t.Error(err)
	}
}

func TestClientSurvivesKillAndRestartOfTheServer(t *testing.T) {
	ctx, server := testContext(t), start(t)
	client := server.client()
	client.Retries = -1
	if err := client.Ready(ctx); err != nil {
		t.Error(err)
	}
	server.kill()
	if err := client.Ready(ctx); err == nil {
		t.Error("it is gone")
	}
	_, err := client.Send(ctx, "rj", 1, "")
	if !mayRepeat(err, false) {
		t.Errorf("that was not posted, and may be sent again: %v", err)
	}
	server.start()
	if _, err := client.Send(ctx, "rj", 1, ""); err != nil {
		t.Error(err)
	}
	var stats struct{ Events int }
	if told, err := client.Stats(ctx); err != nil || json.Unmarshal(told, &stats) != nil {
		t.Error(err)
	}
	if _, err := client.Cluster(ctx); err != nil || stats.Events != 1 {
		t.Error(stats, err)
	}
}

func TestLicencesAreTheProjects(t *testing.T) {
	for _, name := range []string{"LICENSE-APACHE", "LICENSE-MIT"} {
		ours, err := os.ReadFile(name)
		theirs, _ := os.ReadFile("../../" + name)
		if err != nil || string(ours) != string(theirs) {
			t.Errorf("%s differs", name)
		}
	}
}
