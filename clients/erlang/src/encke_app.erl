%% @doc The application: it keeps this node connected to Encke's.
-module(encke_app).

-behaviour(application).

-export([start/2, stop/1]).

%% @private
-spec start(application:start_type(), term()) -> {ok, pid()} | {error, term()}.
start(_Type, _Arguments) ->
    encke_sup:start_link().

%% @private
-spec stop(term()) -> ok.
stop(_State) ->
    ok.
