import com.launchdarkly.eventsource.ConnectStrategy;
import com.launchdarkly.eventsource.DefaultRetryDelayStrategy;
import com.launchdarkly.eventsource.ErrorStrategy;
import com.launchdarkly.eventsource.MessageEvent;
import java.io.PrintStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.WebSocket;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import okhttp3.OkHttpClient;
import okhttp3.Request;
import okhttp3.Response;
import okhttp3.WebSocketListener;
import okhttp3.sse.EventSource;
import okhttp3.sse.EventSourceListener;
import okhttp3.sse.EventSources;

/**
 * One client that is named by the first argument reads the stream of the second one, and prints
 * each event as a line of JSON, as the application has seen it.
 */
public final class Main {
    /** How long who reconnects by hand waits. */
    static final long PAUSE_MS = 200;

    static final PrintStream OUT = new PrintStream(System.out, true, StandardCharsets.UTF_8);

    /** Asks where the stream begins, so that a cut before the first event loses nothing either. */
    static final String ASK = "{\"ping\":1}";

    static final Pattern PLACE = Pattern.compile("^\\{\"id\":\"(\\w+)\"|\"next\":\"(\\w+)\"");

    final String url;

    /** The last id that was heard, of those who reconnect by hand. */
    volatile String place;

    Main(String url) {
        this.url = url;
    }

    public static void main(String[] arguments) throws Exception {
        Main main = new Main(arguments[1]);
        switch (arguments[0]) {
            case "okhttp-sse" -> main.okhttpSse();
            case "okhttp-eventsource" -> main.okhttpEventSource();
            case "okhttp-websocket" -> main.okhttpWebSocket();
            case "java-websocket" -> main.javaWebSocket();
            default -> throw new IllegalArgumentException(arguments[0]);
        }
    }

    /** okhttp-sse does not reconnect. */
    void okhttpSse() throws Exception {
        // Between events there is silence.
        OkHttpClient client = new OkHttpClient.Builder().readTimeout(Duration.ZERO).build();
        while (true) {
            Request.Builder request = new Request.Builder().url(url);
            if (place != null) {
                request.header("Last-Event-ID", place);
            }
            CompletableFuture<Void> ended = new CompletableFuture<>();
            EventSources.createFactory(client).newEventSource(request.build(), new EventSourceListener() {
                @Override
                public void onOpen(EventSource source, Response response) {
                    // Where the stream begins, so that a cut before the first event loses nothing.
                    place = response.header("Encke-Next", place);
                }

                @Override
                public void onEvent(EventSource source, String id, String type, String data) {
                    place = id != null ? id : place;
                    print(id, type, data);
                }

                @Override
                public void onClosed(EventSource source) {
                    ended.complete(null);
                }

                @Override
                public void onFailure(EventSource source, Throwable error, Response response) {
                    ended.complete(null);
                }
            });
            ended.get();
            Thread.sleep(PAUSE_MS);
        }
    }

    /** okhttp-eventsource, LaunchDarkly's, reconnects by itself, ever slower unless told otherwise. */
    void okhttpEventSource() {
        com.launchdarkly.eventsource.EventSource source =
                new com.launchdarkly.eventsource.EventSource.Builder(
                        ConnectStrategy.http(URI.create(url)).readTimeout(0, TimeUnit.SECONDS))
                        .errorStrategy(ErrorStrategy.alwaysContinue())
                        .retryDelay(PAUSE_MS, TimeUnit.MILLISECONDS)
                        .retryDelayStrategy(
                                DefaultRetryDelayStrategy.defaultStrategy()
                                        .maxDelay(PAUSE_MS, TimeUnit.MILLISECONDS))
                        .build();
        for (MessageEvent event : source.messages()) {
            print(event.getLastEventId(), event.getEventName(), event.getData());
        }
    }

    void okhttpWebSocket() throws Exception {
        OkHttpClient client = new OkHttpClient();
        while (true) {
            CompletableFuture<Void> ended = new CompletableFuture<>();
            Request request = new Request.Builder().url(address()).build();
            client.newWebSocket(request, new WebSocketListener() {
                @Override
                public void onOpen(okhttp3.WebSocket socket, Response response) {
                    socket.send(ASK);
                }

                @Override
                public void onMessage(okhttp3.WebSocket socket, String text) {
                    hear(text);
                }

                @Override
                public void onClosing(okhttp3.WebSocket socket, int code, String reason) {
                    socket.close(1000, null);
                    ended.complete(null);
                }

                @Override
                public void onFailure(okhttp3.WebSocket socket, Throwable error, Response response) {
                    ended.complete(null);
                }
            });
            ended.get();
            Thread.sleep(PAUSE_MS);
        }
    }

    /** java.net.http's WebSocket, Java's own. */
    void javaWebSocket() throws Exception {
        HttpClient client = HttpClient.newHttpClient();
        while (true) {
            CompletableFuture<Void> ended = new CompletableFuture<>();
            // It hands a long message over in pieces.
            StringBuilder message = new StringBuilder();
            WebSocket.Listener listener = new WebSocket.Listener() {
                @Override
                public CompletionStage<?> onText(WebSocket socket, CharSequence piece, boolean last) {
                    message.append(piece);
                    if (last) {
                        hear(message.toString());
                        message.setLength(0);
                    }
                    socket.request(1);
                    return null;
                }

                @Override
                public CompletionStage<?> onClose(WebSocket socket, int code, String reason) {
                    ended.complete(null);
                    return null;
                }

                @Override
                public void onError(WebSocket socket, Throwable error) {
                    ended.complete(null);
                }
            };
            try {
                String address = address().replaceFirst("^http", "ws");
                WebSocket socket =
                        client.newWebSocketBuilder().buildAsync(URI.create(address), listener).join();
                socket.sendText(ASK, true);
                ended.get();
            } catch (java.util.concurrent.CompletionException refused) {
                // Tried again below.
            }
            Thread.sleep(PAUSE_MS);
        }
    }

    /**
     * Where a WebSocket connects: behind what it has heard. A client of the protocol knows no place
     * and does not reconnect, so the program does both by hand, as docs/protocol.md describes.
     */
    String address() {
        return place == null ? url : url + "?last_event_id=" + place;
    }

    void hear(String text) {
        Matcher found = PLACE.matcher(text);
        String next = null;
        if (found.find()) {
            next = found.group(1) != null ? found.group(1) : found.group(2);
            place = next;
        }
        String type = text.startsWith("{\"gap\"") ? "gap" : null;
        print(next, text.startsWith("{\"ok\"") ? "next" : type, text);
    }

    static synchronized void print(String id, String type, String data) {
        OUT.println(
                "{\"id\":" + json(id) + ",\"type\":" + json(type) + ",\"data\":" + json(data) + "}");
    }

    static String json(String text) {
        if (text == null) {
            return "null";
        }
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ') {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        return out.append('"').toString();
    }
}
