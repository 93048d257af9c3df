%% @doc A small page server whose users are served by Encke.
%%
%% The page of a user opens a stream of Encke's and shows what it hears. What is typed into it is
%% posted here, and sent to everybody who follows the user, and to the user. For each user there is
%% a process too, which is logged in under the same id and keeps the last messages: a page that is
%% opened later shows them at once. So browsers and processes are in one audience.
%%
%% ```
%% encke serve --erlang-node encke@127.0.0.1 --erlang-cookie-file ~/.erlang.cookie \
%%             --allow-origin http://127.0.0.1:8080
%% make && erl -name pages@127.0.0.1 -pa ebin -encke nodes "['encke@127.0.0.1']" \
%%             -eval 'application:start(encke), page_server:start(8080, "http://127.0.0.1:8000").'
%% '''
%% Then open http://127.0.0.1:8080/alice and http://127.0.0.1:8080/bob; /feed/alice is what a
%% process of this node hears, line by line.
-module(page_server).

-export([start/2, port/1]).

-define(KEPT, 20).

%% @doc Serves pages at `Port' of this machine, 0 for a free one. `Encke' is where browsers reach
%% Encke's public port.
-spec start(inet:port_number(), string()) -> {ok, pid()}.
start(Port, Encke) ->
    {ok, Listener} = gen_tcp:listen(Port, [binary, {packet, http_bin}, {active, false},
                                           {reuseaddr, true}, {ip, {127, 0, 0, 1}}]),
    Users = ets:new(users, [public, named_table]),
    Acceptor = spawn(fun() -> accept(Listener, Encke) end),
    ok = gen_tcp:controlling_process(Listener, Acceptor),
    true = ets:give_away(Users, Acceptor, none),
    true = ets:insert(Users, {listener, Listener}),
    {ok, Acceptor}.

%% @doc The port that was chosen.
-spec port(pid()) -> inet:port_number().
port(_Acceptor) ->
    {ok, Port} = inet:port(ets:lookup_element(users, listener, 2)),
    Port.

accept(Listener, Encke) ->
    {ok, Socket} = gen_tcp:accept(Listener),
    Worker = spawn(fun() -> receive go -> serve(Socket, Encke) end end),
    ok = gen_tcp:controlling_process(Socket, Worker),
    Worker ! go,
    accept(Listener, Encke).

serve(Socket, Encke) ->
    {ok, {http_request, Method, {abs_path, <<"/", User/binary>>}, _}} = gen_tcp:recv(Socket, 0),
    Body = body(Socket, 0),
    case {Method, User} of
        {'GET', <<"feed/", Listener/binary>>} -> feed(Socket, Listener);
        _ -> ok = gen_tcp:send(Socket, [head("html"), answer(Method, User, Body, Encke)])
    end,
    gen_tcp:close(Socket).

head(Kind) ->
    ["HTTP/1.1 200 OK\r\nConnection: close\r\n"
     "Content-Type: text/", Kind, "; charset=utf-8\r\n\r\n"].

%% A stream that this process holds itself, as all were in 2008: a line for each event. It is linked
%% with the router, so it ends when nothing more will come, and its client comes again.
feed(Socket, Listener) ->
    ok = router:login(Listener, self(), [link]),
    ok = inet:setopts(Socket, [{packet, raw}, {active, true}]),
    ok = gen_tcp:send(Socket, head("plain")),
    tell(Socket).

tell(Socket) ->
    receive
        {router_msg, Heard} ->
            ok = gen_tcp:send(Socket, io_lib:format("~0tp~n", [Heard])),
            tell(Socket);
        {router_closed, _Reason} -> ok;
        {tcp_closed, Socket} -> ok
    end.

body(Socket, Length) ->
    case gen_tcp:recv(Socket, 0) of
        {ok, {http_header, _, 'Content-Length', _, Value}} ->
            body(Socket, binary_to_integer(Value));
        {ok, {http_header, _, _, _, _}} ->
            body(Socket, Length);
        {ok, http_eoh} when Length > 0, Length < 10000 ->
            ok = inet:setopts(Socket, [{packet, raw}]),
            {ok, Body} = gen_tcp:recv(Socket, Length),
            Body;
        {ok, http_eoh} ->
            <<>>
    end.

answer('POST', User, Said, _Encke) ->
    _ = keeper(User),
    {ok, Heard} = router:send(User, #{from => User, said => Said}),
    integer_to_binary(Heard);
answer('GET', User, _Body, Encke) ->
    Keeper = keeper(User),
    Keeper ! {last, self()},
    receive {last, Messages} -> page(User, Messages, Encke) end.

%% The process of a user, which is made when the user comes for the first time.
keeper(User) ->
    case ets:lookup(users, User) of
        [{User, Keeper}] ->
            Keeper;
        [] ->
            Keeper = spawn(fun() -> keep([]) end),
            ok = router:login(User, Keeper),
            true = ets:insert(users, {User, Keeper}),
            Keeper
    end.

keep(Messages) ->
    receive
        {router_msg, #{said := Said}} -> keep(lists:sublist([Said | Messages], ?KEPT));
        {router_msg, _Other} -> keep(Messages);
        {router_closed, _Reason} -> ok;
        {last, From} -> From ! {last, lists:reverse(Messages)}, keep(Messages)
    end.

page(User, Messages, Encke) ->
    ["<!doctype html><meta charset=utf-8><title>", escape(User), "</title>",
     "<h1>", escape(User), "</h1><ul id=heard>",
     [["<li>", escape(Message), "</li>"] || Message <- Messages],
     "</ul><form id=form><input id=say autofocus><button>Say</button></form>"
     "<script>const stream = new EventSource('", Encke, "' + '/stream' + location.pathname);"
     "stream.onmessage = ({data}) => { const item = document.createElement('li');"
     " const {about, data: {said}} = JSON.parse(data); item.textContent = about + ': ' + said;"
     " heard.append(item); };"
     "form.onsubmit = (event) => { event.preventDefault();"
     " fetch(location.pathname, {method: 'POST', body: say.value}); say.value = ''; };</script>"].

escape(Text) ->
    [case C of $< -> "&lt;"; $> -> "&gt;"; $& -> "&amp;"; $" -> "&quot;"; _ -> C end
     || <<C>> <= Text].
