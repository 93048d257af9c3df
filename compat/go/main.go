// One client that is named by the first argument reads the stream of the second one, and prints
// each event as a line of JSON, as the application has seen it.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	coder "github.com/coder/websocket"
	gorilla "github.com/gorilla/websocket"
	"github.com/r3labs/sse/v2"
	gosse "github.com/tmaxmax/go-sse"
	"gopkg.in/cenkalti/backoff.v1"
)

// How long who reconnects by hand waits.
const pause = 200 * time.Millisecond

var out = bufio.NewWriter(os.Stdout)

type seen struct {
	ID   string `json:"id"`
	Type string `json:"type"`
	Data string `json:"data"`
}

func print(id, kind, data string) {
	line, _ := json.Marshal(seen{id, kind, data})
	out.Write(append(line, '\n'))
	out.Flush()
}

// r3labs/sse reconnects by itself where its stream breaks; where the server ends it, it is done
// without an error, and the program calls it again. Its default waits longer each time and gives up
// after 15 minutes; the bound of an event is 64 KiB unless another one is given.
func r3labs(address string) {
	client := sse.NewClient(address, sse.ClientMaxBufferSize(1<<20))
	client.ReconnectStrategy = backoff.NewConstantBackOff(pause)
	hear := func(event *sse.Event) {
		// Keep-alives that the end of a connection leaves are an event to it, with the last id.
		if len(event.Data) > 0 {
			print(string(event.ID), string(event.Event), string(event.Data))
		}
	}
	for ; ; time.Sleep(pause) {
		if err := client.SubscribeRaw(hear); err != nil {
			panic(err)
		}
	}
}

// tmaxmax/go-sse reconnects by itself.
func tmaxmax(address string) {
	client := gosse.Client{Backoff: gosse.Backoff{InitialInterval: pause, Multiplier: 1}}
	request, _ := http.NewRequest(http.MethodGet, address, http.NoBody)
	connection := client.NewConnection(request)
	connection.Buffer(nil, 1<<20)
	connection.SubscribeToAll(func(event gosse.Event) {
		print(event.LastEventID, event.Type, event.Data)
	})
	panic(connection.Connect())
}

// Where a WebSocket has heard up to: a client of the protocol knows no place and does not
// reconnect, so the programs do both by hand, as docs/protocol.md describes.
type place struct{ next string }

// Asks where the stream begins, so that a cut before the first event loses nothing either.
const ask = `{"ping":1}`

func (p *place) address(address string) string {
	address = strings.Replace(address, "http", "ws", 1)
	if p.next != "" {
		address += "?last_event_id=" + url.QueryEscape(p.next)
	}
	return address
}

func (p *place) hear(text []byte) {
	var message struct {
		ID  string
		Gap bool
		OK  *struct{ Next string }
	}
	if err := json.Unmarshal(text, &message); err != nil {
		panic(err)
	}
	next, kind := message.ID, ""
	if message.OK != nil {
		next, kind = message.OK.Next, "next"
	} else if message.Gap {
		kind = "gap"
	}
	if next != "" {
		p.next = next
	}
	print(next, kind, string(text))
}

func gorillaWebSocket(address string) {
	var place place
	for ; ; time.Sleep(pause) {
		socket, _, err := gorilla.DefaultDialer.Dial(place.address(address), nil)
		if err != nil {
			continue
		}
		err = socket.WriteMessage(gorilla.TextMessage, []byte(ask))
		for err == nil {
			var text []byte
			if _, text, err = socket.ReadMessage(); err == nil {
				place.hear(text)
			}
		}
		socket.Close()
	}
}

func coderWebSocket(address string) {
	var place place
	ctx := context.Background()
	for ; ; time.Sleep(pause) {
		socket, _, err := coder.Dial(ctx, place.address(address), nil)
		if err != nil {
			continue
		}
		// 32 KiB unless another bound is given.
		socket.SetReadLimit(1 << 20)
		err = socket.Write(ctx, coder.MessageText, []byte(ask))
		for err == nil {
			var text []byte
			if _, text, err = socket.Read(ctx); err == nil {
				place.hear(text)
			}
		}
		socket.CloseNow()
	}
}

func main() {
	clients := map[string]func(string){
		"r3labs":  r3labs,
		"tmaxmax": tmaxmax,
		"gorilla": gorillaWebSocket,
		"coder":   coderWebSocket,
	}
	clients[os.Args[1]](os.Args[2])
}
