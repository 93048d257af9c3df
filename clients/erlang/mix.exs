# For Elixir: `{:encke, path: "…/clients/erlang"}` or the package of Hex. Mix compiles the Erlang
# sources itself; nothing is fetched.
defmodule Encke.MixProject do
  use Mix.Project

  def project do
    [
      app: :encke,
      version: "0.1.0",
      description: "Encke, a push server, for Erlang and Elixir",
      elixir: "~> 1.14",
      language: :erlang,
      erlc_options: [:debug_info, :warnings_as_errors],
      deps: [],
      package: [licenses: ["Apache-2.0", "MIT"], links: %{}]
    ]
  end

  # Nodes of Encke to keep connected to: `config :encke, nodes: [:"encke@127.0.0.1"]`.
  def application do
    [
      mod: {:encke_app, []},
      extra_applications: [:kernel, :stdlib],
      registered: [:encke_sup, :encke_link, :encke_logins, :encke_router, :encke_subsmanager],
      env: [nodes: []]
    ]
  end
end
