%% @doc The router: sends events, and lets processes hear them.
%%
%% It is a process of Encke's, under the global name `router'. Each function is a call of
%% `gen_server': it exits with `noproc' while no Encke is connected.
%%
%% A process that is logged in hears `{router_msg, Payload}' for each event about its id and about
%% all that the id is subscribed to, and `{router_closed, Reason}' if the application logs its id
%% out. `{router_gap}' says that a node of a cluster has lost events. It is logged out when it
%% ends, and when the connection to Encke does: whoever must know that monitors the router,
%% `monitor(process, global:whereis_name(router))'.
-module(router).

-export([send/2, login/2, logout/1]).
-export_type([id/0, reason/0]).

-type id() :: encke_id:id().
%% Anything with a name: a user, a group, a photo.

-type reason() :: bad_id | no_json | not_utf8 | not_text | not_json | improper_list | bad_key
                | too_big | too_deep | too_large | overloaded | noproc | noconnection
                | too_many_ids | store | bad_request.
%% Why something was not done.

%% @doc Hands an event about `Id' to everybody who is logged in as `Id' or as a subscriber of it,
%% processes and browsers alike, and says how many took it.
%%
%% A list is text: browsers hear a string. `{json, Text}' is JSON already. Every other payload is as
%% the module `json' of OTP 27 has it, with tuples as arrays. Processes hear the term as it is.
-spec send(id(), Payload :: term()) -> {ok, non_neg_integer()} | {error, reason()}.
send(Id, Payload) ->
    gen_server:call({global, ?MODULE}, {send, Id, Payload}).

%% @doc Logs a process in under `Id'. It may be logged in under many, and many under one.
-spec login(id(), pid()) -> ok | {error, reason()}.
login(Id, Pid) when is_pid(Pid) ->
    gen_server:call({global, ?MODULE}, {login, Id, Pid}, 10000).

%% @doc Logs a process out of all its ids.
-spec logout(pid()) -> ok.
logout(Pid) when is_pid(Pid) ->
    gen_server:call({global, ?MODULE}, {logout, Pid}).
