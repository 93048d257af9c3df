%% @private
-module(encke_sup).

-behaviour(supervisor).

-export([start_link/0, init/1]).

-spec start_link() -> {ok, pid()} | {error, term()}.
start_link() ->
    case supervisor:start_link({local, ?MODULE}, ?MODULE, []) of
        {ok, Pid} -> {ok, Pid};
        {error, Reason} -> {error, Reason};
        ignore -> {error, ignore}
    end.

-spec init([]) -> {ok, {supervisor:sup_flags(), [supervisor:child_spec()]}}.
init([]) ->
    {ok, Nodes} = application:get_env(encke, nodes),
    Link = #{id => encke_link, start => {encke_link, start_link, [Nodes]}},
    Logins = #{id => encke_logins, start => {encke_logins, start_link, []}},
    {ok, {#{strategy => one_for_one, intensity => 5, period => 10}, [Link, Logins]}}.
