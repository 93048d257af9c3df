# The Phoenix example under Debian's Elixir, which has no Phoenix: what a channel's callbacks are
# called with and what becomes of what they return is played here, by Phoenix's documentation.
# Told by the test of crates/encke/tests/it/erlang/elixir.rs what to wait for, line by line.
defmodule Phoenix.Channel do
  @callback join(String.t(), map, map) :: {:ok, map} | {:error, map}
  @callback handle_in(String.t(), map, map) :: tuple
  @callback handle_info(term, map) :: tuple

  defmacro __using__(_options) do
    quote do
      @behaviour Phoenix.Channel
      import Phoenix.Channel
    end
  end

  def push(socket, event, payload), do: send(socket.client, {:push, event, payload})

  # A channel's process: it joins, then takes what its client and what others send.
  def start(module, topic) do
    client = self()
    {channel, _} = spawn_monitor(fun(module, topic, client))

    receive do
      {^channel, joined} -> {channel, joined}
    end
  end

  defp fun(module, topic, client) do
    fn ->
      {answer, state} = module.join(topic, %{}, %{topic: topic, client: client})
      send(client, {self(), {answer, state}})
      if answer == :ok, do: loop(module, state)
    end
  end

  defp loop(module, socket) do
    receive do
      {:from_client, event, payload} ->
        {:reply, reply, socket} = module.handle_in(event, payload, socket)
        send(socket.client, {:reply, reply})
        loop(module, socket)

      message ->
        case module.handle_info(message, socket) do
          {:noreply, socket} -> loop(module, socket)
          {:stop, reason, _} -> exit(reason)
        end
    end
  end
end

defmodule Trial do
  def until(true?) do
    unless true?.() do
      receive do
      after
        10 -> until(true?)
      end
    end
  end

  def hear do
    receive do
      message -> message
    after
      30_000 -> raise "nothing was heard"
    end
  end
end

[example] = System.argv()
Code.require_file(example)
Application.put_env(:encke, :nodes, [:"encke@127.0.0.1"], persistent: true)
{:ok, _} = Application.ensure_all_started(:encke)
Trial.until(fn -> is_pid(:global.whereis_name(:router)) end)

{:error, %{reason: :bad_id}} = elem(Phoenix.Channel.start(Encke.RoomChannel, "room:a b"), 1)
{:DOWN, _, :process, _, :normal} = Trial.hear()
{channel, {:ok, _}} = Phoenix.Channel.start(Encke.RoomChannel, "room:42")
IO.puts("joined")
{:push, "event", %{event: %{"text" => "hi"}}} = Trial.hear()
send(channel, {:from_client, "say", %{"text" => "grüße"}})
heard = [Trial.hear(), Trial.hear()]
true = {:push, "event", %{event: %{said: "grüße"}}} in heard
true = {:reply, {:ok, %{heard_by: 2}}} in heard

# A topic is a string and comes back as one, a tuple as a tuple.
:ok = :subsmanager.add_subscriptions([{:subscription, "room:42", {:user, 7}}])
:ok = :subsmanager.add_subscriptions([{:subscription, {:user, "x"}, {:user, 7}}])
["room:42", {:user, "x"}] = :subsmanager.get_subscribers({:user, 7}) |> Enum.sort_by(&is_tuple/1)
{:ok, 2} = :router.send({:user, 7}, [{:a, 1}, {:b, nil}])
{:push, "event", %{event: [{:a, 1}, {:b, nil}]}} = Trial.hear()
IO.puts("done")

# Encke ends, and the channel with it: its client joins again.
{:DOWN, _, :process, ^channel, _} = Trial.hear()
IO.puts("ended")
