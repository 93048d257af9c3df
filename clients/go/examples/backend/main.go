// What a browser says goes through this backend, which knows who says it, to Encke.
package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"

	"example.org/encke"
)

// sessions stands for your own: who is logged in with which cookie.
var sessions = map[string]string{"s-4711": "rj"}

var client = &encke.Client{API: os.Getenv("ENCKE_API"), Key: os.Getenv("ENCKE_KEY")}

func main() {
	http.HandleFunc("POST /say", func(w http.ResponseWriter, r *http.Request) {
		cookie, err := r.Cookie("session")
		if err != nil || sessions[cookie.Value] == "" {
			http.Error(w, "log in", http.StatusUnauthorized)
			return
		}
		user := sessions[cookie.Value]
		var say struct{ ID, Text string }
		if json.NewDecoder(r.Body).Decode(&say) != nil || say.Text == "" || len(say.ID) != 36 {
			http.Error(w, "say something", http.StatusBadRequest)
			return
		}
		// The page's own id lets a message that it sends twice be posted once.
		sent, err := client.Send(r.Context(), user, map[string]any{"text": say.Text}, user+":"+say.ID)
		if err != nil {
			fmt.Println(err)
			http.Error(w, "later", http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, "{\"delivered\": %d}\n", sent.Delivered)
	})
	listener, err := net.Listen("tcp", "127.0.0.1:"+os.Getenv("PORT"))
	if err != nil {
		panic(err)
	}
	fmt.Printf("http://%s\n", listener.Addr())
	panic(http.Serve(listener, http.MaxBytesHandler(http.DefaultServeMux, 10_000)))
}
