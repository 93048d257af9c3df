package encke

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// inTime bounds a whole test: only one that fails takes so long.
const inTime = 120 * time.Second

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), inTime)
	t.Cleanup(cancel)
	return ctx
}

func program(t *testing.T) string {
	name := os.Getenv("ENCKE")
	if name == "" {
		name = filepath.Join("..", "..", "target", "debug", "encke")
	}
	if _, err := os.Stat(name); err != nil {
		t.Fatalf("build the server first, or name it in ENCKE: %v", err)
	}
	return name
}

// server is the real one, with a data folder of its own, on the same ports after every start.
type server struct {
	t           *testing.T
	data        string
	options     []string
	listen, api string
	process     *exec.Cmd
}

// nextPort counts the ports that were looked at, from one that other runs hardly begin with: none is
// given to two servers of a run, of which one may not listen yet.
var nextPort = atomic.Uint32{}

func init() { nextPort.Store(rand.Uint32()) }

// freeAddress is one to take again after an end: not of those ports that the kernel gives to anybody,
// nor of those that the tests of the server, the browser client and Python take.
func freeAddress() string {
	for {
		address := fmt.Sprintf("127.0.0.1:%d", 30_000+nextPort.Add(1)%2_000)
		if listener, err := net.Listen("tcp", address); err == nil {
			listener.Close()
			return address
		}
	}
}

func start(t *testing.T, options ...string) *server {
	server := &server{
		t: t, data: t.TempDir(), options: options, listen: freeAddress(), api: freeAddress(),
	}
	t.Cleanup(server.kill)
	server.start()
	return server
}

func (server *server) start() {
	fixed := []string{
		"serve", "--json", "--workers=2", "--listen", server.listen, "--api", server.api,
		"--data", server.data,
	}
	server.process = exec.Command(program(server.t), append(fixed, server.options...)...)
	server.process.Stderr = os.Stderr
	out, err := server.process.StdoutPipe()
	if err == nil {
		err = server.process.Start()
	}
	if err != nil {
		server.t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadBytes('\n')
	var told struct{ Listen, API string }
	if err == nil {
		err = json.Unmarshal(line, &told)
	}
	if err != nil {
		server.t.Fatalf("encke serve: %v", err)
	}
	server.listen, server.api = told.Listen, told.API
}

// kill ends it as a power failure would.
func (server *server) kill() {
	if server.process != nil {
		_ = server.process.Process.Kill()
		_ = server.process.Wait()
		server.process = nil
	}
}

// run is another command of the program.
func (server *server) run(args ...string) string {
	out, err := exec.Command(program(server.t), args...).Output()
	if err != nil {
		server.t.Fatalf("encke %v: %v", args, err)
	}
	return strings.TrimSpace(string(out))
}

func (server *server) client() *Client { return &Client{API: "http://" + server.api} }

// relay passes bytes on until it is cut; then it refuses, until it is mended.
type relay struct {
	listener net.Listener
	target   string
	mutex    sync.Mutex
	open     []net.Conn
	broken   bool
}

func newRelay(t *testing.T, target string) *relay {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	relay := &relay{listener: listener, target: target}
	t.Cleanup(func() { listener.Close(); relay.cut() })
	go relay.accept()
	return relay
}

func (relay *relay) url() string { return "http://" + relay.listener.Addr().String() }

func (relay *relay) accept() {
	for {
		near, err := relay.listener.Accept()
		if err != nil {
			return
		}
		relay.mutex.Lock()
		far, err := net.Dial("tcp", relay.target)
		switch {
		case err != nil || relay.broken:
			near.Close()
			if err == nil {
				far.Close()
			}
		default:
			relay.open = append(relay.open, near, far)
			go func() { _, _ = io.Copy(near, far); near.Close() }()
			go func() { _, _ = io.Copy(far, near); far.Close() }()
		}
		relay.mutex.Unlock()
	}
}

func (relay *relay) cut() {
	relay.mutex.Lock()
	defer relay.mutex.Unlock()
	relay.broken = true
	for _, end := range relay.open {
		end.Close()
	}
	relay.open = nil
}

func (relay *relay) mend() {
	relay.mutex.Lock()
	defer relay.mutex.Unlock()
	relay.broken = false
}

// subscriber listens in a goroutine; what it hears comes as JSON, `gap` or `error: …`.
type subscriber struct {
	t      *testing.T
	heard  chan string
	states chan State
	last   error
	done   chan struct{}
}

func hear(ctx context.Context, t *testing.T, listener *Listener) *subscriber {
	subscriber := &subscriber{
		t: t, heard: make(chan string, 1000), states: make(chan State, 1000),
		done: make(chan struct{}),
	}
	ctx, cancel := context.WithCancel(ctx)
	listener.OnState = func(state State, _ error) { subscriber.states <- state }
	go func() {
		defer close(subscriber.done)
		for event, err := range listener.Listen(ctx) {
			switch {
			case errors.Is(err, ErrGap):
				subscriber.heard <- "gap"
			case err != nil:
				subscriber.last = err
			default:
				subscriber.heard <- string(event.Data)
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-subscriber.done })
	return subscriber
}

func (subscriber *subscriber) next() string {
	subscriber.t.Helper()
	select {
	case heard := <-subscriber.heard:
		return heard
	case <-time.After(inTime / 2):
		subscriber.t.Fatal("nothing heard in time")
		return ""
	}
}

func (subscriber *subscriber) reach(wanted State) {
	subscriber.t.Helper()
	deadline := time.After(inTime / 2)
	for {
		select {
		case state := <-subscriber.states:
			if state == wanted {
				return
			}
		case <-deadline:
			subscriber.t.Fatalf("not %s in time", wanted)
		}
	}
}

// StartServer is for the tests of what the README shows, which see the package as its users do.
func StartServer(t *testing.T, options ...string) (ctx context.Context, api, listen string) {
	server := start(t, options...)
	return testContext(t), server.api, server.listen
}
