%% @doc Which server has a key: libketama's consistent hashing, asked of the port program
%% `encke ketama'.
%%
%% ```
%% {ok, _} = ketama:start_link("/etc/ketama.servers"),
%% <<"10.0.1.1:11211">> = ketama:getserver("user:1").
%% '''
%%
%% A process, registered as `ketama', owns the port. It waits for no answer: keys of many callers
%% are on their way at the same time, and answers come in the order of the keys. When the program
%% ends, however it ends, the process exits, callers that wait exit with it, and its supervisor
%% starts both again; {@link child_spec/1} says how. When the process ends the program does, too.
%%
%% The list of servers is a file: in each line an address, tabs or blanks, and the server's memory;
%% a line that begins with `#' is a comment. When it changes the program reads it again within a
%% second. A bad list is told on standard error: at the start as an error of {@link start_link/2},
%% and later the servers of before hold.
-module(ketama).

-behaviour(gen_server).

-export([start_link/1, start_link/2, child_spec/1, getserver/1]).
-export([init/1, handle_call/3, handle_cast/2, handle_info/2]).

-export_type([key/0, server/0, servers_file/0, start_error/0]).

-type key() :: iodata().
%% At most 255 bytes, which are hashed as they are.

-type server() :: binary().
%% The address as it stands in the list.

-type servers_file() :: file:filename_all().
%% The list of servers.

-type start_error() ::
    {already_started, pid()}
    | {program_not_found, file:filename_all()}
    | {program_ended, ExitStatus :: non_neg_integer() | Reason :: term()}
    | program_is_silent.
%% Why there is no process. An exit status of 2 is that of a bad list; standard error says more.

-record(state, {
    port :: port(),
    %% Who waits, in the order of the keys.
    callers = queue:new() :: queue:queue(gen_server:from())
}).

%% The longest key: its length is one byte.
-define(KEY_BYTES_MAX, 255).

%% Milliseconds within which the program must have read its list.
-define(START_TIMEOUT, 10_000).

%% @equiv start_link(Servers, "encke")
-spec start_link(servers_file()) -> {ok, pid()} | {error, start_error()}.
start_link(Servers) ->
    start_link(Servers, "encke").

%% @doc Starts the process and the program. `Program' is a path, or a name to be found in `PATH'.
%%
%% Returns when the program has read the list and answers.
-spec start_link(servers_file(), Program :: file:filename_all()) ->
    {ok, pid()} | {error, start_error()}.
start_link(Servers, Program) ->
    gen_server:start_link({local, ?MODULE}, ?MODULE, {Servers, Program}, []).

%% @doc How a supervisor starts it: `ketama:child_spec("/etc/ketama.servers")', or with the program
%% `ketama:child_spec({"/etc/ketama.servers", "/usr/local/bin/encke"})'. In Elixir this is
%% `{:ketama, "/etc/ketama.servers"}' among the children.
-spec child_spec(servers_file() | {servers_file(), Program :: file:filename_all()}) ->
    supervisor:child_spec().
child_spec({Servers, Program}) ->
    #{id => ?MODULE, start => {?MODULE, start_link, [Servers, Program]}};
child_spec(Servers) ->
    #{id => ?MODULE, start => {?MODULE, start_link, [Servers]}}.

%% @doc The server that has `Key'.
%%
%% Exits as `gen_server:call/2' does when there is no process, or it ends before the answer. A key
%% of more than 255 bytes is the caller's error `badarg'.
-spec getserver(key()) -> server().
getserver(Key) ->
    Bytes = iolist_to_binary(Key),
    case byte_size(Bytes) =< ?KEY_BYTES_MAX of
        true -> gen_server:call(?MODULE, {getserver, Bytes});
        false -> erlang:error(badarg, [Key])
    end.

%% @private
init({Servers, Program}) ->
    %% Its end is a message, so that the reason can be told.
    process_flag(trap_exit, true),
    case os:find_executable(to_list(Program)) of
        false -> {stop, {program_not_found, Program}};
        Path -> await(open_port({spawn_executable, Path}, port_options(Servers)))
    end.

port_options(Servers) ->
    [{args, ["ketama", "--", Servers]}, {packet, 1}, binary, use_stdio, exit_status].

%% Asks for the empty key: who answers it has read the list.
await(Port) ->
    true = port_command(Port, <<>>),
    receive
        {Port, {data, _Server}} -> {ok, #state{port = Port}};
        {Port, {exit_status, Status}} -> {stop, {program_ended, Status}};
        {'EXIT', Port, Reason} -> {stop, {program_ended, Reason}}
    after ?START_TIMEOUT -> {stop, program_is_silent}
    end.

%% @private
handle_call({getserver, Key}, From, State = #state{port = Port, callers = Callers}) ->
    %% Waits while the pipe is full, which bounds what is on its way.
    true = port_command(Port, Key),
    {noreply, State#state{callers = queue:in(From, Callers)}}.

%% @private
handle_cast(_Message, State) ->
    {noreply, State}.

%% @private
handle_info({Port, {data, Server}}, State = #state{port = Port, callers = Callers}) ->
    {{value, From}, Others} = queue:out(Callers),
    gen_server:reply(From, Server),
    {noreply, State#state{callers = Others}};
handle_info({Port, {exit_status, Status}}, State = #state{port = Port}) ->
    {stop, {program_ended, Status}, State};
handle_info({'EXIT', Port, Reason}, State = #state{port = Port}) ->
    {stop, {program_ended, Reason}, State};
handle_info(_Message, State) ->
    {noreply, State}.

to_list(Program) when is_binary(Program) -> unicode:characters_to_list(Program);
to_list(Program) -> Program.
