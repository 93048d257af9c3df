// Package encke speaks to Encke, a push server, for backends: it sends events, keeps
// subscriptions, and listens without loss. It takes nothing but the standard library.
//
//	client := &encke.Client{API: "http://127.0.0.1:8001", Key: os.Getenv("ENCKE_KEY")}
//	sent, err := client.Send(ctx, "rj", map[string]int{"photo": 789})
//
// A [Client] and a [Listener] are made as they stand, and their zero values are of use. A Client
// may be shared by goroutines. What the server refuses is a [*Refused].
package encke

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"time"
)

// ErrGap is told in a stream where events were missed that the server no longer knows: read your
// data afresh. The stream goes on behind it.
var ErrGap = errors.New("encke: events were missed: read your data afresh")

var errForeign = errors.New("encke: no answer of Encke's API, is that its address?")

// Message is an event to send: any JSON value about an id, or about each of several.
type Message struct {
	// About is the id that the event is about.
	About string `json:"about"`
	// Data is what encoding/json makes JSON of.
	Data any `json:"data"`
	// Key, if there is one, lets the event be posted once within five minutes, however often it
	// is sent.
	Key string `json:"key,omitempty"`
	// Also are further ids that it is about. Who hears several of them hears it once.
	Also []string `json:"-"`
	// Event is a name of your choice that tells kinds of events apart.
	Event string `json:"event,omitempty"`
	// Except is the id of one connection that does not hear it, as its stream has told it.
	Except string `json:"except,omitempty"`
	// Durable has the answer wait until it is on disk, where events about the id are kept.
	Durable bool `json:"durable,omitempty"`
}

// MarshalJSON writes the message as the API reads it: "about" is an id or a list of them.
func (message Message) MarshalJSON() ([]byte, error) {
	var about any = message.About
	if len(message.Also) > 0 {
		about = append([]string{message.About}, message.Also...)
	}
	return json.Marshal(struct {
		About   any    `json:"about"`
		Data    any    `json:"data"`
		Key     string `json:"key,omitempty"`
		Event   string `json:"event,omitempty"`
		Except  string `json:"except,omitempty"`
		Durable bool   `json:"durable,omitempty"`
	}{about, message.Data, message.Key, message.Event, message.Except, message.Durable})
}

// Sent is an event that was posted.
type Sent struct {
	// Delivered is how many connections heard it. Nobody online is 0, and no error.
	Delivered int `json:"delivered"`
	// AtLeast says that a node of a cluster has not said how many heard it there.
	AtLeast bool `json:"at_least"`
	// ID is opaque, unique, and grows with time.
	ID string `json:"id"`
}

// Subscription lets Subscriber hear what is sent about Subscribee.
type Subscription struct {
	Subscriber string `json:"subscriber"`
	Subscribee string `json:"subscribee"`
}

// Page is a part of a list of ids.
type Page struct {
	IDs []string `json:"ids"`
	// Next is what to give for the next page; empty on the last one.
	Next string `json:"next"`
}

// Connections is how many connections an id has.
type Connections struct {
	Connections int  `json:"connections"`
	AtLeast     bool `json:"at_least"`
}

// Closed is how many connections were ended.
type Closed struct {
	Closed  int  `json:"closed"`
	AtLeast bool `json:"at_least"`
}

// Revocation names tokens: one by JTI, perhaps with Exp, or all of Sub, perhaps made Before.
type Revocation struct {
	JTI    string `json:"jti,omitempty"`
	Exp    int64  `json:"exp,omitempty"`
	Sub    string `json:"sub,omitempty"`
	Before int64  `json:"before,omitempty"`
}

// Event is an event that was heard.
type Event struct {
	// ID is opaque, and the place to resume after.
	ID    string `json:"id"`
	About string `json:"about"`
	// Also are the other ids that it is about, if it is about several.
	Also []string `json:"also,omitempty"`
	// Event is the name that its sender gave it.
	Event string `json:"event,omitempty"`
	// From is the id of the client that sent it, if a client did: the server has made sure of it.
	From string          `json:"from,omitempty"`
	Data json.RawMessage `json:"data"`
}

// EventsOf says which events of an id a page has: those between two others, 100 at most unless
// Limit says otherwise, and the oldest first.
type EventsOf struct {
	// After and Before are ids of events, or empty.
	After, Before string
	Limit         int
	NewestFirst   bool
}

// EventPage is a part of what was sent about an id.
type EventPage struct {
	Events []Event `json:"events"`
	// Next is what to give as After for the next page, or as Before if the newest come first; empty
	// on the last one.
	Next string `json:"next"`
	// Gap says that events which this page should have are no longer remembered.
	Gap bool `json:"gap"`
}

// Member is a user in a room: the subject of a token, and what that says of its bearer.
type Member struct {
	ID string `json:"id"`
	// Info is JSON, or empty.
	Info json.RawMessage `json:"info,omitempty"`
}

// Members is who is in a room.
type Members struct {
	Count int `json:"count"`
	// List is nil where there are too many.
	List []Member `json:"list"`
}

// Refused is what the server, or a proxy before it, refused (RFC 9457); Detail says what to do.
type Refused struct {
	Status int
	Title  string
	Detail string
	// Line says, of a stream, which line is meant, from 1.
	Line int
	// RetryAfter is the time after which another try may do better, and 0 where none was said.
	RetryAfter time.Duration
	// IsEnckes says that Encke itself said so, and not a proxy, whose word may pass.
	IsEnckes bool

	// asksBack says that there was a RetryAfter, which may be 0.
	asksBack bool
}

func (refused *Refused) Error() string {
	switch {
	case refused.Title == "" && refused.Detail == "":
		return fmt.Sprintf("encke: HTTP %d", refused.Status)
	case refused.Detail == "":
		return "encke: " + refused.Title
	default:
		return "encke: " + refused.Title + ": " + refused.Detail
	}
}

// IsFinal says that the same request will be refused again.
func (refused *Refused) IsFinal() bool {
	switch refused.Status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return false
	}
	return refused.IsEnckes && refused.Status >= 400 && refused.Status < 500
}

type problem struct {
	Status int    `json:"status"`
	Title  string `json:"title"`
	Detail string `json:"detail"`
	Line   int    `json:"line"`
	// Encke's problems say what to do and have no instance, which other makers of problems give.
	Instance string `json:"instance"`
}

func (told problem) refused() *Refused {
	return &Refused{
		Status: told.Status, Title: told.Title, Detail: told.Detail, Line: told.Line,
		IsEnckes: told.Status != 0 && told.Detail != "" && told.Instance == "",
	}
}

// refusal reads what an answer that is no success says.
func refusal(answer *http.Response) *Refused {
	var told problem
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if kind == "application/problem+json" {
		// What is no JSON says nothing.
		_ = json.NewDecoder(io.LimitReader(answer.Body, bodyBytesMax)).Decode(&told)
	}
	refused := told.refused()
	refused.IsEnckes = refused.IsEnckes && told.Status == answer.StatusCode
	refused.Status = answer.StatusCode
	// What is too large for the number is the largest one, and an error.
	seconds, err := strconv.ParseUint(answer.Header.Get("Retry-After"), 10, 31)
	if err == nil || errors.Is(err, strconv.ErrRange) {
		refused.RetryAfter = time.Duration(seconds) * time.Second
		refused.asksBack = true
	}
	return refused
}
