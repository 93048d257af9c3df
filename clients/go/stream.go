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
// with a [*StreamEnded]; so does what ctx ends, and what owes an answer for client.Timeout. After
// either there is nothing more.
//
// Who leaves the loop early leaves the stream; messages is asked for one more at most.
func (client *Client) SendStream(
	ctx context.Context, messages iter.Seq[Message],
) iter.Seq2[Sent, error] {
	return func(yield func(Sent, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		read, write := io.Pipe()
		defer read.CloseWithError(context.Canceled)
		body := &lines{out: write, timeout: client.timeout(), cancel: cancel}
		go body.write(ctx, messages)
		if err := client.answers(ctx, read, body, yield); err != nil {
			yield(Sent{}, &StreamEnded{Answered: int(body.answered.Load()), Cause: err})
		}
	}
}

func (client *Client) answers(
	ctx context.Context, read io.Reader, body *lines, yield func(Sent, error) bool,
) error {
	request, err := client.request(ctx, "/send", read, ndjson)
	if err != nil {
		return err
	}
	// The server ends a connection whose stream it has refused, and the next call would meet that.
	request.Close = true
	var answer *http.Response
	body.inTime(func() { answer, err = direct(client.HTTP).Do(request) })
	if err != nil {
		return body.because(because(ctx, err))
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return refusal(answer)
	}
	var last error
	reader := bufio.NewReaderSize(&owing{answer.Body, body}, readBytes)
	for {
		line, err := readLine(reader)
		switch {
		case err == io.EOF && body.ended.Load() && body.answered.Load() >= body.taken.Load():
			return nil
		case err == io.EOF:
			return body.because(cmpOr(last, io.ErrUnexpectedEOF))
		case err != nil:
			return body.because(because(ctx, err))
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var told struct {
			Sent
			problem
		}
		if err := json.Unmarshal(line, &told); err != nil {
			return err
		}
		if told.problem.Status == 0 && told.ID == "" {
			return errForeign
		}
		body.answered.Add(1)
		last = nil
		if told.problem.Status != 0 {
			last = told.problem.refused()
		}
		if !yield(told.Sent, last) {
			return nil
		}
	}
}

// lines makes the body of messages, and counts them and their answers.
type lines struct {
	out      *io.PipeWriter
	taken    atomic.Int64
	answered atomic.Int64
	ended    atomic.Bool
	timeout  time.Duration
	cancel   context.CancelCauseFunc

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

// inTime waits, and ends the request where an answer is owed and nothing comes.
func (body *lines) inTime(wait func()) {
	done := make(chan struct{})
	defer close(done)
	owes := func() bool { return body.answered.Load() < body.taken.Load() }
	go func() {
		for owed := owes(); ; owed = owes() {
			select {
			case <-done:
				return
			case <-time.After(body.timeout):
			}
			if owed {
				body.cancel(fmt.Errorf("encke: nothing came for %v", body.timeout))
				return
			}
		}
	}()
	wait()
}

// owing is a body at each read of which an answer may be owed.
type owing struct {
	io.Reader
	body *lines
}

func (answers *owing) Read(into []byte) (count int, err error) {
	answers.body.inTime(func() { count, err = answers.Reader.Read(into) })
	return count, err
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
