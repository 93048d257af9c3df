# A Phoenix channel as audience: the process of each channel is logged in under its topic, and hears
# what anybody sends about it (another node, the HTTP API, a browser's form), beside all browsers
# that have a stream of Encke's own. What it hears it pushes to its client.
#
# In the socket: `channel "room:*", Encke.RoomChannel`.
defmodule Encke.RoomChannel do
  use Phoenix.Channel

  @impl true
  def join("room:" <> _ = topic, _params, socket) do
    # Linked: when Encke ends, or the connection to it, the channel does, and its client joins again.
    case :router.login(topic, self(), [:link]) do
      :ok -> {:ok, socket}
      {:error, reason} -> {:error, %{reason: reason}}
    end
  end

  # From the client to all who hear the topic, this channel among them.
  @impl true
  def handle_in("say", %{"text" => text}, socket) do
    case :router.send(socket.topic, %{said: text}) do
      {:ok, count} -> {:reply, {:ok, %{heard_by: count}}, socket}
      {:error, reason} -> {:reply, {:error, %{reason: reason}}, socket}
    end
  end

  # What was sent about the topic.
  @impl true
  def handle_info({:router_msg, event}, socket) do
    push(socket, "event", %{event: event})
    {:noreply, socket}
  end

  def handle_info({:router_closed, reason}, socket), do: {:stop, reason, socket}
  def handle_info({:router_gap}, socket), do: {:noreply, socket}
end
