package encke

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func messages(count int) iter.Seq[Message] {
	return func(yield func(Message) bool) {
		for n := range count {
			if !yield(Message{About: "rj", Data: n}) {
				return
			}
		}
	}
}

// Each message is made when the one before was answered: one batch would wait for ever.
func TestStreamOfSendsAnswersWhileMessagesAreTaken(t *testing.T) {
	ctx, client := testContext(t), start(t).client()
	turns := make(chan int, 1)
	turns <- 0
	answered := 0
	for sent, err := range client.SendStream(ctx, func(yield func(Message) bool) {
		for range 50 {
			if !yield(Message{About: "rj", Data: <-turns}) {
				return
			}
		}
	}) {
		if err != nil || sent.ID == "" {
			t.Fatal(sent, err)
		}
		answered++
		turns <- answered
	}
	if answered != 50 {
		t.Errorf("%d answers", answered)
	}
}

func TestStreamOfSendsGoesOnBehindABadLineAndIsReadWhileItIsSent(t *testing.T) {
	ctx, client := testContext(t), start(t).client()
	answered := 0
	for _, err := range client.SendStream(ctx, func(yield func(Message) bool) {
		for n := range 30_000 {
			message := Message{About: "rj", Data: strings.Repeat("x", 100)}
			if n == 1000 {
				message.About = "a/b"
			}
			if !yield(message) {
				return
			}
		}
	}) {
		var refused *Refused
		if errors.As(err, &refused) != (answered == 1000) {
			t.Fatal(answered, err)
		}
		if refused != nil && refused.Line != 1001 {
			t.Errorf("line %d", refused.Line)
		}
		answered++
	}
	if answered != 30_000 {
		t.Errorf("%d answers", answered)
	}
}

func TestStreamOfSendsSaysHowManyWereAnsweredWhenTheServerIsKilled(t *testing.T) {
	ctx, server := testContext(t), start(t)
	killed := make(chan struct{})
	answered := 0
	for _, err := range server.client().SendStream(ctx, func(yield func(Message) bool) {
		for n := 0; ; n++ {
			if n == 100 {
				<-killed
			}
			if !yield(Message{About: "rj", Data: n}) {
				return
			}
		}
	}) {
		var ended *StreamEnded
		if errors.As(err, &ended) {
			if ended.Answered != 100 || answered != 100 {
				t.Errorf("%d, and told %d", answered, ended.Answered)
			}
			return
		}
		if answered++; answered == 100 {
			server.kill()
			close(killed)
		}
	}
	t.Error("the end was not told")
}

// And not when there is nothing to answer.
func TestStreamOfSendsEndsWhenAnAnswerIsOwedAndDoesNotCome(t *testing.T) {
	ctx, client := testContext(t), start(t).client()
	idle := func(yield func(Message) bool) {
		time.Sleep(client.Timeout * 5 / 2)
		yield(Message{About: "rj", Data: 1})
	}
	// Where the machine is too busy for an answer in time, there is more of it.
	for _, client.Timeout = range []time.Duration{time.Second / 5, time.Second, 5 * time.Second} {
		var last error
		for sent, err := range client.SendStream(ctx, idle) {
			if last = err; err == nil && sent.ID == "" {
				t.Error(sent)
			}
		}
		if last == nil {
			break
		}
		if client.Timeout > time.Second {
			t.Error(last)
		}
	}
	client.Timeout = time.Second / 5
	for _, hasHead := range []bool{false, true} {
		peer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if hasHead {
				w.WriteHeader(200)
				w.(http.Flusher).Flush()
			}
			// Only behind the body the end of the connection is seen.
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done()
		}))
		client.API = peer.URL
		for _, err := range client.SendStream(ctx, idle) {
			var ended *StreamEnded
			if !errors.As(err, &ended) || !strings.Contains(err.Error(), "nothing came for 200ms") {
				t.Error(err)
			}
		}
		peer.Close()
	}
}

func TestLineMayBeLongerThanTheBufferAndIsBounded(t *testing.T) {
	reader := bufio.NewReaderSize(strings.NewReader("a\n"+strings.Repeat("b", 40)+"\n"), 16)
	for _, expected := range []string{"a", strings.Repeat("b", 40)} {
		if line, err := readLine(reader); string(line) != expected || err != nil {
			t.Errorf("%q, %v", line, err)
		}
	}
	if _, err := readLine(bufio.NewReaderSize(endless{}, readBytes)); err != errLongLine {
		t.Error(err)
	}
}

type endless struct{}

func (endless) Read(into []byte) (int, error) {
	into[0] = 'x'
	return len(into), nil
}

func TestStreamOfSendsTellsWhatIsNoJSON(t *testing.T) {
	ctx, client := testContext(t), start(t).client()
	var last error
	for _, last = range client.SendStream(ctx, func(yield func(Message) bool) {
		yield(Message{About: "rj", Data: func() {}})
	}) {
	}
	var cause *json.UnsupportedTypeError
	if !errors.As(last, &cause) {
		t.Errorf("%v", last)
	}
}
