package encke_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"example.org/encke"
)

// The blocks of the README, one after the other and as they stand there.

func send(ctx context.Context) error {
	client := &encke.Client{API: "http://127.0.0.1:8001", Key: os.Getenv("ENCKE_KEY")}

	added, err := client.Subscribe(ctx, "bob", "rj") // it is on disk
	if err != nil {
		return err
	}
	sent, err := client.Send(ctx, "rj", map[string]int{"photo": 789}, "")
	if err != nil {
		return err
	}
	fmt.Println(added, sent.Delivered) // whether it is new; how many connections heard it
	if !added || sent.ID == "" {
		return fmt.Errorf("%v, %v", added, sent)
	}
	return nil
}

func lookAround(ctx context.Context, client *encke.Client) error {
	there, err := client.Members(ctx, "room:7") // the users: the subjects of their tokens
	fmt.Println(there.Count, there.List)

	page, err := client.Events(ctx, "room:7", encke.EventsOf{NewestFirst: true, Limit: 50})
	older, err := client.Events(ctx, "room:7", encke.EventsOf{
		NewestFirst: true, Limit: 50, Before: page.Next, // empty on the last one
	})
	if len(older.Events) > 0 {
		return fmt.Errorf("nobody has said anything: %v", older)
	}
	return err
}

func sendMany(
	ctx context.Context, client *encke.Client, messages iter.Seq[encke.Message],
) error {
	for sent, err := range client.SendStream(ctx, messages) { // an iter.Seq[encke.Message]
		switch err := err.(type) {
		case nil:
			log.Print(sent.Delivered)
		case *encke.Refused:
			log.Print(err.Line, err.Detail) // that one was not sent; the rest go on
		default:
			return err // the last thing told: an *encke.StreamEnded says after how many answers
		}
	}
	return nil
}

func listen(ctx context.Context, refresh func()) error {
	listener := &encke.Listener{URL: "http://127.0.0.1:8000", IDs: []string{"bob", "photo:789"}}

	for event, err := range listener.Listen(ctx) {
		if errors.Is(err, encke.ErrGap) {
			refresh() // events were missed: read your data afresh
			continue
		}
		if err != nil {
			return err
		}
		log.Print(event.About, string(event.Data))
	}
	return nil
}

func TestREADMEHasTheBlocksThatAreRunHere(t *testing.T) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("readme_test.go")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(page), "```go\n")[1:]
	if len(blocks) != 4 {
		t.Errorf("%d blocks, of which four are run", len(blocks))
	}
	for _, block := range blocks {
		block, _, _ = strings.Cut(block, "```")
		indented := strings.ReplaceAll("\n"+block, "\n", "\n\t")
		indented = strings.ReplaceAll(indented, "\n\t\n", "\n\n")
		if !strings.Contains(string(source), strings.TrimRight(indented, "\t")) {
			t.Errorf("no test runs this:\n%s", block)
		}
	}
}

// elsewhere leads requests for one port to another.
type elsewhere map[string]string

func (ports elsewhere) RoundTrip(request *http.Request) (*http.Response, error) {
	request = request.Clone(request.Context())
	request.URL.Host = ports[request.URL.Host]
	request.Host = request.URL.Host
	return http.DefaultTransport.RoundTrip(request)
}

// logged are the lines of the log.
type logged chan string

func (lines logged) Write(text []byte) (int, error) {
	lines <- strings.TrimSpace(string(text))
	return len(text), nil
}

func TestREADMERuns(t *testing.T) {
	ctx, api, port := encke.StartServer(t)
	lines := make(logged, 10)
	client := *http.DefaultClient
	http.DefaultClient.Transport = elsewhere{"127.0.0.1:8001": api, "127.0.0.1:8000": port}
	log.SetOutput(lines)
	log.SetFlags(0)
	t.Cleanup(func() {
		*http.DefaultClient = client
		log.SetOutput(os.Stderr)
		log.SetFlags(log.LstdFlags)
	})
	if err := send(ctx); err != nil {
		t.Fatal(err)
	}
	if err := lookAround(ctx, &encke.Client{}); err != nil {
		t.Fatal(err)
	}
	listening, leave := context.WithCancel(ctx)
	defer leave()
	left := make(chan error)
	go func() { left <- listen(listening, func() { t.Error("a gap") }) }()
	backend := &encke.Client{}
	for online := 0; online == 0; {
		told, err := backend.Connections(ctx, "bob")
		if err != nil {
			t.Fatal(err)
		}
		online = told.Connections
	}
	if err := send(ctx); err == nil {
		t.Error("bob followed rj before")
	}
	if heard := <-lines; heard != `rj{"photo":789}` {
		t.Error(heard)
	}
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	err := sendMany(ctx, backend, func(yield func(encke.Message) bool) {
		_ = yield(encke.Message{About: "eve", Data: 1}) && yield(encke.Message{About: "a/b"})
	})
	if err != nil {
		t.Error(err)
	}
	if sent, refused := <-lines, <-lines; sent != "0" || !strings.HasPrefix(refused, "2") {
		t.Errorf("%q, %q", sent, refused)
	}
}

// program is what the blocks of docs/api-examples.md are pieces of: the first one is its beginning,
// and each of the others has names of its own.
const program = `package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"

	"example.org/encke"
)

func main() {
	ctx := context.Background()
	%s
	{
		%s
	}
}
`

func TestAPIInFiveLanguagesRuns(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("0123456789abcdef0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, api, _ := encke.StartServer(t, "--token-key", secret)
	page, err := os.ReadFile("../../docs/api-examples.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, block := range strings.Split(string(page), "```go\n")[1:] {
		block, _, _ = strings.Cut(block, "```")
		blocks = append(blocks, block)
	}
	folder := t.TempDir()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{
		"main.go": fmt.Sprintf(program, blocks[0], strings.Join(blocks[1:], "}\n{\n")),
		"go.mod": "module example.org/program\n\ngo 1.23\n\nrequire example.org/encke v0.0.0\n\n" +
			"replace example.org/encke => " + here + "\n",
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := exec.CommandContext(ctx, "go", "run", ".")
	run.Dir = folder
	run.Env = append(os.Environ(), "ENCKE_API=http://"+api, "ENCKE_KEY=", "GOFLAGS=-mod=mod")
	told, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, told)
	}
	said := `^new: true\n0 \w{16}\n\w{16}\nbob\n0 0\n\[.*typing.*\]\n` +
		`removed: true\npresence: \n0\n400 .+\n$`
	if !regexp.MustCompile(said).Match(told) {
		t.Errorf("%s", told)
	}
}
