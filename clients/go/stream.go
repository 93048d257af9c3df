package encke

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

const (
	ndjson = "application/x-ndjson"
	// The server ends a stream of which nothing comes for 300 s.
	silentBody = time.Minute
)

// StreamEnded says that a stream of sends ended before its last answer.
type StreamEnded struct {
	// Answered is how many answers had come.
	Answered int
	// Cause is why, as far as that is known.
	Cause error
}

func (ended *StreamEnded) Error() string {
	return fmt.Sprintf("encke: the stream ended after %d answers: %v", ended.Answered, ended.Cause)
}

func (ended *StreamEnded) Unwrap() error { return ended.Cause }

// SendStream sends messages over one request, and tells an answer for each, in their order.
//
// Answers come while messages are still taken, which another goroutine does. One that is refused
// is told as a [*Refused], and the stream goes on. A stream that ends before its last answer ends
// with a [*StreamEnded]; so does what ctx ends. After either there is nothing more.
//
// Who leaves the loop early leaves the stream; messages is asked for one more at most.
func (client *Client) SendStream(
	ctx context.Context, messages iter.Seq[Message],
) iter.Seq2[Sent, error] {
	return func(yield func(Sent, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		read, write := io.Pipe()
		defer read.CloseWithError(context.Canceled)
		body := &lines{out: write}
		go body.write(ctx, messages)
		answered, err := client.answers(ctx, read, body, yield)
		if err != nil {
			yield(Sent{}, &StreamEnded{Answered: answered, Cause: err})
		}
	}
}

func (client *Client) answers(
	ctx context.Context, read io.Reader, body *lines, yield func(Sent, error) bool,
) (int, error) {
	request, err := client.request(ctx, "/send", read, ndjson)
	if err != nil {
		return 0, err
	}
	answer, err := client.http().Do(request)
	if err != nil {
		return 0, body.because(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return 0, refusal(answer)
	}
	answered := 0
	var last error
	reader := bufio.NewReader(answer.Body)
	for {
		line, err := reader.ReadBytes('\n')
		if err != nil {
			switch {
			case err != io.EOF:
				return answered, body.because(err)
			case !body.ended.Load() || int64(answered) < body.taken.Load():
				return answered, body.because(cmpOr(last, io.ErrUnexpectedEOF))
			}
			return answered, nil
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var told struct {
			Sent
			problem
		}
		if err := json.Unmarshal(line, &told); err != nil {
			return answered, err
		}
		answered++
		last = nil
		if told.problem.Status != 0 {
			last = told.problem.refused()
		}
		if !yield(told.Sent, last) {
			return answered, nil
		}
	}
}

// lines makes the body of messages, and counts them.
type lines struct {
	out   *io.PipeWriter
	taken atomic.Int64
	ended atomic.Bool

	mutex  sync.Mutex
	failed error
}

func (body *lines) write(ctx context.Context, messages iter.Seq[Message]) {
	// A pipe takes one write at a time, so empty lines stand between others.
	ticker := time.NewTicker(silentBody)
	defer ticker.Stop()
	done := make(chan struct{})
	defer close(done)
	go func() {
		for {
			select {
			case <-ticker.C:
				_, _ = body.out.Write([]byte("\n"))
			case <-done:
				return
			}
		}
	}()
	for message := range messages {
		line, err := json.Marshal(message)
		if err != nil {
			body.fail(err)
			return
		}
		body.taken.Add(1)
		if _, err := body.out.Write(append(line, '\n')); err != nil {
			return
		}
		if ctx.Err() != nil {
			return
		}
	}
	body.ended.Store(true)
	body.out.Close()
}

func (body *lines) fail(err error) {
	body.mutex.Lock()
	defer body.mutex.Unlock()
	body.failed = err
	body.out.CloseWithError(err)
}

// because is the application's own fault, if there was one, and else err.
func (body *lines) because(err error) error {
	body.mutex.Lock()
	defer body.mutex.Unlock()
	return cmpOr(body.failed, err)
}

func cmpOr(one, other error) error {
	if one != nil {
		return one
	}
	return other
}
