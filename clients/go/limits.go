package encke

import "time"

const (
	defaultAPI = "http://127.0.0.1:8001"
	defaultURL = "http://127.0.0.1:8000"
	userAgent  = "encke-go/0.1.0"
	ndjson     = "application/x-ndjson"
)

// Calls.
const (
	defaultRetries = 2
	defaultTimeout = 30 * time.Second
	callFirst      = 100 * time.Millisecond
	callMost       = 2 * time.Second
	// Who is asked to wait longer is told instead.
	callAskedMost = 10 * time.Second
	// An answer that is read whole; the longest, a page of 10,000 ids, has 2.6 MB.
	bodyBytesMax = 64 << 20
	// The server ends a stream of sends of which nothing comes for 300 s.
	silentBody = time.Minute
)

// Streams that are heard.
const (
	defaultSilence = 36 * time.Second
	listenFirst    = 500 * time.Millisecond
	listenMost     = 30 * time.Second
	// What a server may ask for.
	listenAskedMost = 24 * time.Hour
	// A stream that lasted so long was a good one: the next waits begin anew.
	steady = 10 * time.Second
	// As many refused tokens in a row are final.
	refusedTokensMax = 3
	// No event is longer than the server's --max-backlog, and no answer to a send.
	lineBytesMax = 64 << 20
	readBytes    = 32 << 10
)
