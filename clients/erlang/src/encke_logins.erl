%% @private
%% Logs processes in again when Encke is back: those that were logged in through this node, live
%% still and were not logged out through it.
%%
%% Encke forgets them when it ends, and when the connection does. They are kept here in a table of
%% some 20 words each, and watched.
-module(encke_logins).

-behaviour(gen_server).

-export([start_link/0, logged_in/3, logged_out/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-define(LOOK_MS, 500).
%% Log-ins between two answers that are waited for: no more is under way than Encke's queue holds.
-define(PORTION, 10_000).

-type state() :: reference() | away.
%% The monitor of Encke's router, if that is there.

-spec start_link() -> {ok, pid()} | {error, term()}.
start_link() ->
    case gen_server:start_link({local, ?MODULE}, ?MODULE, [], []) of
        {ok, Pid} -> {ok, Pid};
        {error, Reason} -> {error, Reason};
        ignore -> {error, ignore}
    end.

%% @doc The process has been logged in. Without the application it is not kept.
-spec logged_in(encke_id:id(), pid(), [link]) -> ok.
logged_in(Id, Pid, Options) ->
    gen_server:cast(?MODULE, {logged_in, Id, Pid, Options}).

%% @doc It is logged out of all its ids. When this returns it is logged in no more from here, so
%% that whoever logs it out then is the last one.
-spec logged_out(pid()) -> ok.
logged_out(Pid) ->
    case whereis(?MODULE) of
        undefined -> ok;
        _ -> gen_server:call(?MODULE, {logged_out, Pid}, infinity)
    end.

-spec init([]) -> {ok, state()}.
init([]) ->
    ?MODULE = ets:new(?MODULE, [bag, named_table, private]),
    {ok, look()}.

-spec handle_call(term(), gen_server:from(), state()) ->
    {reply, ok | {error, unknown}, state()}.
handle_call({logged_out, Pid}, _From, State) ->
    case ets:take(?MODULE, Pid) of
        [{Pid, Monitor, _, _} | _] -> true = demonitor(Monitor, [flush]);
        [] -> true
    end,
    {reply, ok, State};
handle_call(_Request, _From, State) ->
    {reply, {error, unknown}, State}.

-spec handle_cast(term(), state()) -> {noreply, state()}.
handle_cast({logged_in, Id, Pid, Options}, State) ->
    Monitor = case ets:lookup(?MODULE, Pid) of
        [{Pid, Known, _, _} | _] -> Known;
        [] -> monitor(process, Pid)
    end,
    %% An id may be any term, so none of them is taken for a pattern.
    _ = [ets:delete_object(?MODULE, Row) || {_, _, Known, _} = Row <- ets:lookup(?MODULE, Pid),
                                            Known =:= Id],
    true = ets:insert(?MODULE, {Pid, Monitor, Id, Options}),
    {noreply, State}.

-spec handle_info(term(), state()) -> {noreply, state()}.
handle_info({'DOWN', Router, process, _Pid, _Reason}, Router) ->
    {noreply, look()};
handle_info({'DOWN', _Monitor, process, Pid, _Reason}, State) ->
    true = ets:delete(?MODULE, Pid),
    {noreply, State};
handle_info(look, away) ->
    {noreply, look()};
handle_info(_Other, State) ->
    {noreply, State}.

%% Looks for the router, and logs all processes in with one that is new.
look() ->
    case global:whereis_name(router) of
        undefined ->
            _ = erlang:send_after(?LOOK_MS, self(), look),
            away;
        Router ->
            Monitor = monitor(process, Router),
            ok = login(Router, ets:match_object(?MODULE, '_', ?PORTION)),
            Monitor
    end.

login(_Router, '$end_of_table') ->
    ok;
login(Router, {Logins, Further}) ->
    lists:foreach(fun({Pid, _, Id, Options}) ->
        gen_server:cast(Router, {login, Id, Pid, Options})
    end, Logins),
    %% The answer comes when all before it is done. When Encke goes meanwhile, its monitor tells.
    try gen_server:call(Router, {logout, self()}, infinity) of
        ok -> login(Router, ets:match_object(Further))
    catch
        exit:_ -> ok
    end.
