%% @doc The router: sends events, and lets processes hear them.
%%
%% It is a process of Encke's, under the global name `router'. Each function is a call of
%% `gen_server': it exits with `noproc' while no Encke is connected.
%%
%% A process that is logged in hears `{router_msg, Payload}' for each event about its id and about
%% all that the id is subscribed to, and `{router_closed, Reason}' if the application logs its id
%% out. `{router_gap}' says that a node of a cluster has lost events. It is logged out when it
%% ends, and when the connection to Encke does. Then the application `encke', where it is started,
%% logs it in again as soon as Encke is back; what was sent in between it does not hear. Whoever
%% must know that monitors the router, `monitor(process, global:whereis_name(router))', or is linked
%% with it: {@link login/3}.
-module(router).

-export([send/2, login/2, login/3, logout/1]).
-export([start_link/0, stop/0]).
-export_type([id/0, reason/0]).

-type id() :: encke_id:id().
%% Anything with a name: a user, a group, a photo.

-type reason() :: bad_id | id_too_long | no_json | not_utf8 | not_text | not_json | improper_list | bad_key | doubled_key
                | too_big | too_deep | too_large | overloaded | noproc | noconnection
                | too_many_ids | store | bad_request.
%% Why something was not done.

%% @doc Hands an event about `Id' to everybody who is logged in as `Id' or as a subscriber of it,
%% processes and browsers alike, and says how many took it.
%%
%% A list of characters and binaries is text: browsers hear a string. `{json, Text}' is JSON already.
%% Every other payload is as the module `json' of OTP 27 has it, with tuples as arrays. Processes hear
%% the term as it is.
-spec send(id(), Payload :: term()) -> {ok, non_neg_integer()} | {error, reason()}.
send(Id, Payload) ->
    gen_server:call({global, ?MODULE}, {send, Id, Payload}).

%% @equiv login(Id, Pid, [])
-spec login(id(), pid()) -> ok | {error, reason()}.
login(Id, Pid) ->
    login(Id, Pid, []).

%% @doc Logs a process in under `Id'. It may be logged in under many, and many under one.
%%
%% With the option `link' it is linked with the router, as the original's were: when Encke ends, or
%% the connection to it, the process does too. So what serves one page ends with what it serves, and
%% the page comes again. A process that is logged out is not linked any more.
-spec login(id(), pid(), [link]) -> ok | {error, reason()}.
login(Id, Pid, Options) when is_pid(Pid) ->
    case gen_server:call({global, ?MODULE}, {login, Id, Pid, Options}, 10000) of
        ok -> encke_logins:logged_in(Id, Pid, Options);
        {error, Reason} -> {error, Reason}
    end.

%% @doc Logs a process out of all its ids. One that hears `{router_closed, Reason}' and lives on
%% should say so too, or it is logged in again when Encke comes back from a restart.
-spec logout(pid()) -> ok.
logout(Pid) when is_pid(Pid) ->
    ok = encke_logins:logged_out(Pid),
    gen_server:call({global, ?MODULE}, {logout, Pid}).

%% @doc A process of this node that stands for Encke's router, for supervisors: it is there when
%% Encke is, which it waits for up to 30 s, and ends when Encke does.
-spec start_link() -> {ok, pid()} | {error, encke_service:start_error()}.
start_link() ->
    encke_service:start_link(?MODULE).

%% @doc Ends that process. Encke goes on.
-spec stop() -> ok.
stop() ->
    encke_service:stop(?MODULE).
