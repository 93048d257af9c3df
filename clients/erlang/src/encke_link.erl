%% @private
%% Keeps this node connected to Encke's nodes, which are hidden and so connect to nobody by
%% themselves unless they are told to. A node that goes is tried again each second.
-module(encke_link).

-behaviour(gen_server).

-export([start_link/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-define(RETRY_MS, 1000).

-spec start_link([node()]) -> {ok, pid()} | {error, term()}.
start_link(Nodes) ->
    case gen_server:start_link({local, ?MODULE}, ?MODULE, Nodes, []) of
        {ok, Pid} -> {ok, Pid};
        {error, Reason} -> {error, Reason};
        ignore -> {error, ignore}
    end.

-spec init([node()]) -> {ok, [node()]}.
init(Nodes) ->
    lists:foreach(fun(Node) -> self() ! {connect, Node} end, Nodes),
    {ok, Nodes}.

-spec handle_call(term(), gen_server:from(), [node()]) -> {reply, {error, unknown}, [node()]}.
handle_call(_Request, _From, Nodes) ->
    {reply, {error, unknown}, Nodes}.

-spec handle_cast(term(), [node()]) -> {noreply, [node()]}.
handle_cast(_Request, Nodes) ->
    {noreply, Nodes}.

-spec handle_info(term(), [node()]) -> {noreply, [node()]}.
handle_info({connect, Node}, Nodes) ->
    case net_kernel:connect_node(Node) of
        true -> true = erlang:monitor_node(Node, true);
        _ -> retry(Node)
    end,
    {noreply, Nodes};
handle_info({nodedown, Node}, Nodes) ->
    retry(Node),
    {noreply, Nodes};
handle_info(_Other, Nodes) ->
    {noreply, Nodes}.

-spec retry(node()) -> true.
retry(Node) ->
    _ = erlang:send_after(?RETRY_MS, self(), {connect, Node}),
    true.
