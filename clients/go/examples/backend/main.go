// What a browser says goes through this backend, which knows who says it, to Encke.
package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"

	"example.org/encke"
)

// sessions stands for your own: who is logged in with which cookie.
var sessions = map[string]string{"s-4711": "rj"}

var client = &encke.Client{API: os.Getenv("ENCKE_API_URL"), Key: os.Getenv("ENCKE_KEY")}

func say(w http.ResponseWriter, r *http.Request) {
	cookie, err := r.Cookie("session")
	if err != nil || sessions[cookie.Value] == "" {
		http.Error(w, "log in", http.StatusUnauthorized)
		return
	}
	user := sessions[cookie.Value]
	var said struct{ ID, Text string }
	err = json.NewDecoder(http.MaxBytesReader(w, r.Body, 10_000)).Decode(&said)
	if err != nil || said.Text == "" || said.ID == "" || len(said.ID) > 64 {
		http.Error(w, "say something", http.StatusBadRequest)
		return
	}
	// The page's own id lets a message that it sends twice be posted once.
	data := map[string]string{"text": said.Text}
	sent, err := client.Send(r.Context(), user, data, user+":"+said.ID)
	if err != nil {
		log.Print(err)
		http.Error(w, "later", http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, "{\"delivered\": %d}\n", sent.Delivered)
}

func main() {
	http.HandleFunc("POST /say", say)
	listener, err := net.Listen("tcp", "127.0.0.1:"+cmp.Or(os.Getenv("PORT"), "3000"))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("http://%s\n", listener.Addr())
	log.Fatal(http.Serve(listener, nil))
}
