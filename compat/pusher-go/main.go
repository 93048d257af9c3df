// Pusher's library for Go: what a backend sends, asks and ends.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	pusher "github.com/pusher/pusher-http-go/v5"
)

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return value
}

func main() {
	api, app, key, secret, socket := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5]
	backend := pusher.Client{AppID: app, Key: key, Secret: secret, Host: api}
	photo := map[string]int{"photo": 789}
	params := pusher.TriggerParams{SocketID: &socket}
	must(backend.TriggerMultiWithParams([]string{"news", "private-rj"}, "photo", photo, params))
	must(backend.TriggerBatch([]pusher.Event{
		{Channel: "news", Name: "1", Data: "first"},
		{Channel: "news", Name: "2", Data: "second"},
	}))
	must(0, backend.SendToUser("bob", "hello", map[string]string{"to": "bob"}))
	prefix, users, subscriptions := "presence-", "user_count", "subscription_count"
	channels := must(backend.Channels(pusher.ChannelsParams{FilterByPrefix: &prefix, Info: &users}))
	channel := must(backend.Channel("news", pusher.ChannelParams{Info: &subscriptions}))
	told := map[string]any{
		"channels": channels.Channels,
		"channel": map[string]any{
			"occupied":           channel.Occupied,
			"subscription_count": channel.SubscriptionCount,
		},
		"users": must(backend.GetChannelUsers("presence-room")).List,
	}
	fmt.Println(string(must(json.Marshal(told))))
}
