package encke

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// calls says by which method each operation of /openapi.json is called; a test compares both.
var calls = map[string]string{
	"send":                "Send",
	"connections":         "Connections",
	"members":             "Members",
	"events":              "Events",
	"revokeTokens":        "RevokeTokens",
	"logout":              "Logout",
	"addSubscriptions":    "AddSubscriptions",
	"removeSubscriptions": "RemoveSubscriptions",
	"subscribers":         "Subscribers",
	"subscriptions":       "Subscriptions",
	"stats":               "Stats",
	"cluster":             "Cluster",
	"readyz":              "Ready",
}

// Client is the API of a server: it sends events, keeps subscriptions, looks up and ends
// connections.
//
// A call that fails, or that the server asks to repeat, is made again, but a send that may have
// been posted only if it has a key: it would be heard twice. Redirects are not followed.
type Client struct {
	// API is where the server listens for applications; http://127.0.0.1:8001 unless given.
	API string
	// Key is what `encke key new` printed, if the server asks for one.
	Key string `json:"-"`
	// Retries is how often a call is made again: 2 unless given, never if negative.
	Retries int
	// Timeout bounds each try of a call, and how long a stream of sends waits for an answer that
	// it is owed: 30 s unless given.
	Timeout time.Duration
	// HTTP makes the requests; http.DefaultClient unless given. It should have no Timeout of its
	// own, which would end a stream of sends.
	HTTP *http.Client
}

// String is the address: a key is not for logs.
func (client Client) String() string { return "encke.Client{" + client.API + "}" }

// GoString is the same.
func (client Client) GoString() string { return client.String() }

// Send sends an event to all who are online as about or follow it. With a key it is posted once
// within five minutes, however often it is sent; without one, give "".
func (client *Client) Send(ctx context.Context, about string, data any, key string) (Sent, error) {
	return client.SendMessage(ctx, Message{About: about, Data: data, Key: key})
}

// SendMessage sends an event that may have a name, be about several ids, and leave out a
// connection.
func (client *Client) SendMessage(ctx context.Context, message Message) (Sent, error) {
	var sent Sent
	err := client.call(ctx, "/send", message, message.Key != "", &sent)
	if err == nil && sent.ID == "" {
		err = errForeign
	}
	return sent, err
}

// Subscribe lets subscriber hear subscribee, and says whether that was new. It is on disk then.
func (client *Client) Subscribe(
	ctx context.Context, subscriber, subscribee string,
) (bool, error) {
	added, err := client.AddSubscriptions(ctx, Subscription{subscriber, subscribee})
	return added == 1, err
}

// Unsubscribe is the opposite, and says whether there was such a subscription.
func (client *Client) Unsubscribe(
	ctx context.Context, subscriber, subscribee string,
) (bool, error) {
	removed, err := client.RemoveSubscriptions(ctx, Subscription{subscriber, subscribee})
	return removed == 1, err
}

// AddSubscriptions adds all pairs or none, at most 8 MiB of JSON, and says how many were new.
func (client *Client) AddSubscriptions(
	ctx context.Context, pairs ...Subscription,
) (int, error) {
	var done struct{ Added int }
	err := client.call(ctx, "/subscriptions/add", append([]Subscription{}, pairs...), true, &done)
	return done.Added, err
}

// RemoveSubscriptions removes all pairs or none, and says how many there were.
func (client *Client) RemoveSubscriptions(
	ctx context.Context, pairs ...Subscription,
) (int, error) {
	var done struct{ Removed int }
	body := append([]Subscription{}, pairs...)
	err := client.call(ctx, "/subscriptions/remove", body, true, &done)
	return done.Removed, err
}

// Subscribers tells who follows id, page by page; an error is the last thing told.
func (client *Client) Subscribers(ctx context.Context, id string) iter.Seq2[string, error] {
	return client.pages(ctx, client.SubscribersPage, id)
}

// Subscriptions tells whom id follows, page by page; an error is the last thing told.
func (client *Client) Subscriptions(ctx context.Context, id string) iter.Seq2[string, error] {
	return client.pages(ctx, client.SubscriptionsPage, id)
}

// SubscribersPage is one page of Subscribers, of 1 to 10,000 ids, after the Next of another one.
func (client *Client) SubscribersPage(
	ctx context.Context, id, after string, limit int,
) (Page, error) {
	return client.page(ctx, "/subscribers/", id, after, limit)
}

// SubscriptionsPage is one page of Subscriptions, of 1 to 10,000 ids, after the Next of another.
func (client *Client) SubscriptionsPage(
	ctx context.Context, id, after string, limit int,
) (Page, error) {
	return client.page(ctx, "/subscriptions/", id, after, limit)
}

// Connections says how many connections id has: whether it is online.
func (client *Client) Connections(ctx context.Context, id string) (Connections, error) {
	var told Connections
	err := client.call(ctx, "/connections/"+url.PathEscape(id), nil, true, &told)
	return told, err
}

// Members says who is in the room id: the users that are logged in under it, each once.
func (client *Client) Members(ctx context.Context, id string) (Members, error) {
	var told struct{ Members *Members }
	err := client.call(ctx, "/members/"+url.PathEscape(id), nil, true, &told)
	if err == nil && told.Members == nil {
		err = errForeign
	}
	if err != nil {
		return Members{}, err
	}
	return *told.Members, nil
}

// Events is a page of what was sent about id.
func (client *Client) Events(ctx context.Context, id string, of EventsOf) (EventPage, error) {
	query := url.Values{}
	for name, value := range map[string]string{"after": of.After, "before": of.Before} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if of.Limit != 0 {
		query.Set("limit", strconv.Itoa(of.Limit))
	}
	if of.NewestFirst {
		query.Set("order", "desc")
	}
	path := "/events/" + url.PathEscape(id)
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	var page EventPage
	err := client.call(ctx, path, nil, true, &page)
	if err == nil && page.Events == nil {
		err = errForeign
	}
	return page, err
}

// Logout ends all connections of id.
func (client *Client) Logout(ctx context.Context, id string) (Closed, error) {
	var told Closed
	err := client.call(ctx, "/logout/"+url.PathEscape(id), struct{}{}, true, &told)
	return told, err
}

// RevokeTokens refuses tokens from now on, and ends their streams.
func (client *Client) RevokeTokens(ctx context.Context, which Revocation) error {
	return client.call(ctx, "/tokens/revoke", which, true, nil)
}

// Stats are the server's figures, a JSON object.
func (client *Client) Stats(ctx context.Context) (json.RawMessage, error) {
	var told json.RawMessage
	err := client.call(ctx, "/stats", nil, true, &told)
	return told, err
}

// Cluster tells the nodes of the server's cluster, a JSON object.
func (client *Client) Cluster(ctx context.Context) (json.RawMessage, error) {
	var told json.RawMessage
	err := client.call(ctx, "/cluster", nil, true, &told)
	return told, err
}

// Ready says by a nil that the server takes work, and else why not.
func (client *Client) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, client.timeout())
	defer cancel()
	return client.once(ctx, "/readyz", nil, nil)
}

type pageOf func(ctx context.Context, id, after string, limit int) (Page, error)

func (client *Client) pages(
	ctx context.Context, read pageOf, id string,
) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for after := ""; ; {
			page, err := read(ctx, id, after, 1000)
			if err != nil {
				yield("", err)
				return
			}
			for _, name := range page.IDs {
				if !yield(name, nil) {
					return
				}
			}
			if after = page.Next; after == "" {
				return
			}
		}
	}
}

func (client *Client) page(
	ctx context.Context, path, id, after string, limit int,
) (Page, error) {
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	if after != "" {
		query.Set("after", after)
	}
	var page Page
	err := client.call(ctx, path+url.PathEscape(id)+"?"+query.Encode(), nil, true, &page)
	return page, err
}

// call makes a call, again if it may be; without a body it is a GET.
func (client *Client) call(
	ctx context.Context, path string, body any, repeatable bool, into any,
) error {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return fmt.Errorf("encke: %w", err)
		}
	}
	retries := client.Retries
	if retries == 0 {
		retries = defaultRetries
	}
	for tries := 0; ; tries++ {
		tried, cancel := context.WithTimeout(ctx, client.timeout())
		err := client.once(tried, path, data, into)
		cancel()
		if err == nil || tries >= retries || ctx.Err() != nil || !mayRepeat(err, repeatable) {
			return err
		}
		var refused *Refused
		var asked time.Duration
		if errors.As(err, &refused) {
			asked = refused.RetryAfter
		}
		if pause(ctx, backoff(tries, callFirst, callMost, asked)) != nil {
			return err
		}
	}
}

func (client *Client) once(ctx context.Context, path string, data []byte, into any) error {
	var body io.Reader
	if data != nil {
		body = bytes.NewReader(data)
	}
	request, err := client.request(ctx, path, body, "application/json")
	if err != nil {
		return err
	}
	answer, err := direct(client.HTTP).Do(request)
	if err != nil {
		return fmt.Errorf("encke: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return refusal(answer)
	}
	told, err := io.ReadAll(io.LimitReader(answer.Body, bodyBytesMax))
	if err != nil {
		return fmt.Errorf("encke: %w", err)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(told, into); err != nil {
		return fmt.Errorf("%w %w", errForeign, err)
	}
	return nil
}

func (client *Client) request(
	ctx context.Context, path string, body io.Reader, kind string,
) (*http.Request, error) {
	api := client.API
	if api == "" {
		api = defaultAPI
	}
	method := http.MethodGet
	if body != nil {
		method = http.MethodPost
	}
	address := strings.TrimRight(api, "/") + path
	request, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return nil, fmt.Errorf("encke: %w", err)
	}
	request.Header.Set("User-Agent", userAgent)
	request.Header.Set("Accept", kind)
	if body != nil {
		request.Header.Set("Content-Type", kind)
	}
	if client.Key != "" {
		if err := show(request, client.Key, "Key"); err != nil {
			return nil, err
		}
	}
	return request, nil
}

// errUnshowable is a key, a token or a place that no header can hold: the words of net/http do not
// say what to look for.
var errUnshowable = errors.New("has other characters than visible ASCII: is a line break behind it?")

// isVisible says whether a header can hold the text.
func isVisible(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return r < '!' || r > '~' }) < 0
}

// show shows the key or the token, which `what` names, with the request.
func show(request *http.Request, secret, what string) error {
	if !isVisible(secret) {
		return fmt.Errorf("encke: %s %w", what, errUnshowable)
	}
	request.Header.Set("Authorization", "Bearer "+secret)
	return nil
}

// direct is the client that was given, or the default one, but follows no redirects unless it says
// how: a key or a token is for one server alone, and an event is not posted by a GET.
func direct(given *http.Client) *http.Client {
	if given == nil {
		given = http.DefaultClient
	}
	if given.CheckRedirect != nil {
		return given
	}
	client := *given
	client.CheckRedirect = func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}
	return &client
}

func (client *Client) timeout() time.Duration {
	if client.Timeout == 0 {
		return defaultTimeout
	}
	return client.Timeout
}

// mayRepeat says whether a call that ended so does no harm when it is made again.
func mayRepeat(err error, repeatable bool) bool {
	if errors.Is(err, errUnshowable) {
		return false
	}
	var refused *Refused
	if errors.As(err, &refused) {
		if !repeatable && !(refused.IsEnckes && refused.Status == http.StatusTooManyRequests) {
			// A 503 may come after some have heard the event.
			return false
		}
		switch refused.Status {
		case http.StatusConflict, http.StatusTooManyRequests, http.StatusServiceUnavailable:
			return refused.asksBack && refused.RetryAfter <= callAskedMost
		}
		return false
	}
	// Without a connection there was no request.
	var failed *net.OpError
	return repeatable || errors.As(err, &failed) && failed.Op == "dial"
}
