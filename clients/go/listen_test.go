package encke

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func mustSend(ctx context.Context, t *testing.T, client *Client, about string, data any) Sent {
	t.Helper()
	sent, err := client.Send(ctx, about, data, "")
	if err != nil {
		t.Fatal(err)
	}
	return sent
}

func TestCutStreamGoesOnAfterTheLastEvent(t *testing.T) {
	ctx, server := testContext(t), start(t)
	client, relay := server.client(), newRelay(t, server.listen)
	if _, err := client.Subscribe(ctx, "bob", "rj"); err != nil {
		t.Fatal(err)
	}
	subscriber := hear(ctx, t, &Listener{URL: relay.url(), IDs: []string{"bob", "7"}})
	subscriber.reach(Open)
	mustSend(ctx, t, client, "7", "first")
	if heard := subscriber.next(); heard != `"first"` {
		t.Fatal(heard)
	}
	for round := range 3 {
		relay.cut()
		for n := range 10 {
			mustSend(ctx, t, client, []string{"rj", "bob"}[n%2], []int{round, n})
		}
		relay.mend()
		for n := range 10 {
			expected := fmt.Sprintf("[%d,%d]", round, n)
			if heard := subscriber.next(); heard != expected {
				t.Fatalf("%s, not %s", heard, expected)
			}
		}
	}
}

func TestKillOfTheServerIsToldAsAGap(t *testing.T) {
	ctx, server := testContext(t), start(t)
	subscriber := hear(ctx, t, &Listener{URL: "http://" + server.listen, IDs: []string{"bob"}})
	subscriber.reach(Open)
	mustSend(ctx, t, server.client(), "bob", 1)
	if heard := subscriber.next(); heard != "1" {
		t.Fatal(heard)
	}
	server.kill()
	subscriber.reach(Waiting)
	server.start()
	if heard := subscriber.next(); heard != "gap" {
		t.Fatal(heard)
	}
	mustSend(ctx, t, server.client(), "bob", 2)
	if heard := subscriber.next(); heard != "2" {
		t.Fatal(heard)
	}
}

func TestNextProcessGoesOnWhereTheLastOneWas(t *testing.T) {
	ctx, server := testContext(t), start(t)
	client := server.client()
	first := &Listener{URL: "http://" + server.listen, IDs: []string{"bob"}}
	var sent Sent
	first.OnState = func(state State, _ error) {
		if state == Open {
			sent = mustSend(ctx, t, client, "bob", 0)
			mustSend(ctx, t, client, "bob", 1)
		}
	}
	for event, err := range first.Listen(ctx) {
		if err != nil || event.ID != sent.ID {
			t.Fatal(event, err)
		}
		break
	}
	if first.Place() != sent.ID {
		t.Fatalf("%q is not the place of what was taken", first.Place())
	}
	mustSend(ctx, t, client, "bob", 2)
	next := &Listener{URL: first.URL, IDs: first.IDs, After: first.Place()}
	subscriber := hear(ctx, t, next)
	if heard := []string{subscriber.next(), subscriber.next()}; !reflect.DeepEqual(heard, []string{"1", "2"}) {
		t.Error(heard)
	}
}

func TestRefusalOfTheServerIsFinalAndTheContextEndsIt(t *testing.T) {
	ctx, server := testContext(t), start(t)
	var refused *Refused
	for _, err := range (&Listener{
		URL: "http://" + server.listen, IDs: []string{"a/b"},
	}).Listen(ctx) {
		if !errors.As(err, &refused) || refused.Status != 400 || refused.Detail == "" {
			t.Error(err)
		}
	}
	if refused == nil {
		t.Error("nothing was told")
	}
	ended, cancel := context.WithCancel(ctx)
	listener := &Listener{URL: "http://" + server.listen, IDs: []string{"a"}}
	listener.OnState = func(State, error) { cancel() }
	for _, err := range listener.Listen(ended) {
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	for _, listener := range []*Listener{{}, {IDs: []string{"a"}, After: "1\n"}} {
		told := 0
		for _, err := range listener.Listen(ctx) {
			if told++; err == nil || told > 1 {
				t.Error("without ids, or at no place, there is nothing to hear")
			}
		}
	}
}

// Anybody may send what is nested so deeply: the next event is heard.
func TestEventThatGoCannotReadIsToldAsAGap(t *testing.T) {
	ctx, server := testContext(t), start(t)
	subscriber := hear(ctx, t, &Listener{URL: "http://" + server.listen, IDs: []string{"bob"}})
	subscriber.reach(Open)
	deep := strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)
	for data, expected := range map[string]string{deep: "gap", "1": "1"} {
		body := strings.NewReader(`{"about":"bob","data":` + data + `}`)
		answer, err := http.Post("http://"+server.api+"/send", "application/json", body)
		if err != nil || answer.StatusCode != 200 {
			t.Fatal(answer, err)
		}
		answer.Body.Close()
		if heard := subscriber.next(); heard != expected {
			t.Errorf("%s, not %s", heard, expected)
		}
	}
}

func TestSilentStreamIsLeft(t *testing.T) {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", ndjson)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer proxy.Close()
	told := make(chan error, 100)
	listener := &Listener{URL: proxy.URL, IDs: []string{"b"}, Silence: 200 * time.Millisecond}
	ctx, cancel := context.WithCancel(testContext(t))
	listener.OnState = func(state State, why error) {
		if state == Waiting {
			told <- why
			cancel()
		}
	}
	for range listener.Listen(ctx) {
	}
	if why := <-told; why.Error() != "encke: nothing came for 200ms" {
		t.Error(why)
	}
}

// As who reads it from a file gives it.
func TestTokenWithALineBreakIsToldAsSuchAndNotShown(t *testing.T) {
	ctx, cancel := context.WithCancel(testContext(t))
	listener := &Listener{URL: "http://127.0.0.1:1", IDs: []string{"a"}}
	listener.Token = func(context.Context) (string, error) { return "hidden\n", nil }
	var told error
	listener.OnState = func(state State, why error) {
		if state == Waiting {
			told = why
			cancel()
		}
	}
	for range listener.Listen(ctx) {
	}
	if !errors.Is(told, errUnshowable) || strings.Contains(told.Error(), "hidden") {
		t.Error(told)
	}
}

func TestTokenIsAskedForAtEachConnectAndRefusedOnesAreFinal(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("0123456789abcdef0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, server := testContext(t), start(t, "--token-key", secret)
	good := server.run("token", "new", "--token-key", secret, "--sub", "bob")
	asked := 0
	listener := &Listener{URL: "http://" + server.listen, IDs: []string{"bob"}}
	listener.Token = func(context.Context) (string, error) {
		asked++
		switch asked {
		case 2:
			return "", errors.New("not now")
		case 3:
			return good, nil
		}
		return "wrong", nil
	}
	subscriber := hear(ctx, t, listener)
	subscriber.reach(Open)
	mustSend(ctx, t, server.client(), "bob", json.RawMessage(`{"n": 1}`))
	if heard := subscriber.next(); heard != `{"n":1}` {
		t.Error(heard)
	}
	if _, err := server.client().Logout(ctx, "bob"); err != nil {
		t.Fatal(err)
	}
	<-subscriber.done
	var refused *Refused
	if !errors.As(subscriber.last, &refused) || refused.Status != 401 || asked != 6 {
		t.Errorf("%v after %d tokens", subscriber.last, asked)
	}
	other := &Listener{URL: listener.URL, IDs: []string{"eve"}}
	other.Token = func(context.Context) (string, error) { return good, nil }
	for _, err := range other.Listen(ctx) {
		if !errors.As(err, &refused) || refused.Status != 403 {
			t.Error(err)
		}
	}
}
