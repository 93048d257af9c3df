package encke

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
)

// State is what a [Listener] is doing.
type State string

// The states of a listener.
const (
	Connecting State = "connecting"
	Open       State = "open"
	Waiting    State = "waiting"
)

// Listener hears what is sent about IDs and all that they follow.
//
// It comes back by itself, with growing random waits, and goes on after the last event that it
// gave. It is for one loop at a time.
type Listener struct {
	// URL is where the server listens for clients; http://127.0.0.1:8000 unless given.
	URL string
	// IDs are heard together, each event once.
	IDs []string
	// Token, if streams need one, gets it; it is asked before each connect.
	Token func(context.Context) (string, error)
	// After is the Place of an earlier listener.
	After string
	// Silence is after how long a stream that says nothing is taken for dead, and how long a
	// connect may take: 36 s unless given. It must be more than the server's --keepalive.
	Silence time.Duration
	// OnState is told what it does, and when it waits, why.
	OnState func(State, error)
	// HTTP makes the requests; http.DefaultClient unless given. It should have no Timeout.
	HTTP *http.Client

	place atomic.Pointer[string]
}

// Place is after which event it goes on: keep it, and give it as After in the next process.
func (listener *Listener) Place() string {
	if place := listener.place.Load(); place != nil {
		return *place
	}
	return listener.After
}

// Listen tells events until ctx ends or the loop is left. [ErrGap] is told where some were lost:
//
//	for event, err := range listener.Listen(ctx) {
//		if errors.Is(err, encke.ErrGap) {
//			refresh()
//			continue
//		}
//		if err != nil {
//			return err
//		}
//		…
//	}
//
// Any other error is the last thing told: a [*Refused] that will not pass, or ctx's own. A 404 or
// 503 of a proxy passes, and is told to OnState alone.
func (listener *Listener) Listen(ctx context.Context) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		if len(listener.IDs) == 0 {
			yield(Event{}, errors.New("encke: give a listener at least one id"))
			return
		}
		if !isVisible(listener.After) {
			yield(Event{}, fmt.Errorf("encke: After %w", errUnshowable))
			return
		}
		tries, refusedTokens := 0, 0
		for {
			var opened time.Time
			listener.tell(Connecting, nil)
			left, err := listener.stream(ctx, func() {
				opened, refusedTokens = time.Now(), 0
				listener.tell(Open, nil)
			}, func(event Event, err error) bool {
				tries = 0
				return yield(event, err)
			})
			if left {
				return
			}
			if ctx.Err() != nil {
				yield(Event{}, ctx.Err())
				return
			}
			var refused *Refused
			var asked time.Duration
			if errors.As(err, &refused) {
				asked = refused.RetryAfter
				isFinal := refused.IsFinal()
				if refused.Status == http.StatusUnauthorized && listener.Token != nil {
					refusedTokens++
					isFinal = refusedTokens >= refusedTokensMax
				}
				if isFinal {
					yield(Event{}, refused)
					return
				}
			}
			if !opened.IsZero() && time.Since(opened) > steady {
				tries = 0
			}
			listener.tell(Waiting, err)
			if err := pause(ctx, backoff(tries, listenFirst, listenMost, asked)); err != nil {
				yield(Event{}, err)
				return
			}
			tries++
		}
	}
}

// stream is one connection, until it fails or is left.
func (listener *Listener) stream(
	ctx context.Context, opened func(), tell func(Event, error) bool,
) (left bool, err error) {
	silence := listener.Silence
	if silence == 0 {
		silence = defaultSilence
	}
	errSilent := fmt.Errorf("encke: nothing came for %v", silence)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer watch.Stop()
	request, err := listener.request(ctx)
	if err != nil {
		return false, because(ctx, err)
	}
	answer, err := direct(listener.HTTP).Do(request)
	if err != nil {
		return false, because(ctx, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return false, refusal(answer)
	}
	if kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type")); kind != ndjson {
		return false, errors.New("encke: that is no stream: is it Encke's public port?")
	}
	// Where the stream begins: without it, a cut before the first event loses unseen.
	begin := answer.Header.Get("Encke-Next")
	if listener.Place() == "" && begin != "" {
		listener.place.Store(&begin)
	}
	// Behind a gap it begins elsewhere; who has not read of that gap is told of it again.
	isBehindGap := begin != "" && answer.Header.Get("Encke-Gap") == "true"
	opened()
	body := bufio.NewReaderSize(&watched{answer.Body, watch, silence}, readBytes)
	for {
		line, err := readLine(body)
		if err != nil {
			return false, because(ctx, err)
		}
		event, isGap, err := parse(line)
		if err != nil {
			return false, err
		}
		// However long the application takes is no silence of the server's.
		watch.Stop()
		switch {
		case isGap:
			if isBehindGap {
				listener.place.Store(&begin)
				isBehindGap = false
			}
			left = !tell(Event{}, ErrGap)
		case event.ID != "":
			listener.place.Store(&event.ID)
			isBehindGap = false
			left = !tell(event, nil)
		}
		if left {
			return true, nil
		}
	}
}

func (listener *Listener) request(ctx context.Context) (*http.Request, error) {
	address := listener.URL
	if address == "" {
		address = defaultURL
	}
	address = strings.TrimRight(address, "/") + "/stream/" + url.PathEscape(listener.IDs[0])
	if further := listener.IDs[1:]; len(further) > 0 {
		address += "?" + url.Values{"id": further}.Encode()
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("encke: %w", err)
	}
	request.Header.Set("Accept", ndjson)
	request.Header.Set("User-Agent", userAgent)
	if place := listener.Place(); place != "" {
		request.Header.Set("Last-Event-ID", place)
	}
	if listener.Token != nil {
		token, err := listener.Token(ctx)
		if err != nil {
			return nil, fmt.Errorf("encke: no token: %w", err)
		}
		if err := show(request, token, "the token"); err != nil {
			return nil, err
		}
	}
	return request, nil
}

func (listener *Listener) tell(state State, why error) {
	if listener.OnState != nil {
		listener.OnState(state, why)
	}
}

// because tells the reason for which the request was ended, if it was, and else err.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// watched is a body at each read of which the watch begins anew.
type watched struct {
	io.Reader
	watch   *time.Timer
	silence time.Duration
}

func (body *watched) Read(into []byte) (int, error) {
	body.watch.Reset(body.silence)
	return body.Reader.Read(into)
}

// parse reads a line; an event without an id is a keep-alive, or what a later server may add.
func parse(line []byte) (event Event, isGap bool, err error) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 || line[0] != '{' && json.Valid(line) {
		return Event{}, false, nil
	}
	var told struct {
		Event
		Gap bool `json:"gap"`
	}
	if err := json.Unmarshal(line, &told); err != nil {
		if bytes.HasPrefix(line, []byte(`{"id":`)) {
			// An event that is nested more deeply than encoding/json reads. It would come again for
			// ever, so who sends such a one has to be borne.
			return Event{}, true, nil
		}
		return Event{}, false, fmt.Errorf("encke: a line of the stream is no JSON: %w", err)
	}
	if told.About == "" || told.Data == nil {
		return Event{}, told.Gap, nil
	}
	return told.Event, told.Gap, nil
}
