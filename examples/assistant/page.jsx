// A chat as one writes it with the AI SDK. Only the transport is another one.

import { useState } from "react";
import { createRoot } from "react-dom/client";
import { useChat } from "@ai-sdk/react";
import { createDurableChatTransport } from "@durable-streams/aisdk-transport";

const AGAIN_MS = 1000;

const transport = createDurableChatTransport({ api: "/api/chat" });

/** What was said before the last answer, which the stream has. */
const earlier = async (id) => (await fetch(`/api/chat/${id}`)).json();

function Chat({ id, messages: first, onError }) {
  const [question, setQuestion] = useState("");
  const options = { id, messages: first, transport, resume: true, onError };
  const { messages, sendMessage, status, error } = useChat(options);
  const ask = (event) => {
    event.preventDefault();
    sendMessage({ text: question });
    setQuestion("");
  };
  return (
    <>
      <ol id="messages" aria-live="polite">
        {messages.map(({ id, role, parts }) => (
          <li key={id} className={role}>
            <b>{role === "user" ? "You" : "Assistant"}</b>{" "}
            <span>{parts.map((part) => part.text ?? "").join("")}</span>
          </li>
        ))}
      </ol>
      <form onSubmit={ask}>
        <label>
          Your question{" "}
          <input value={question} onChange={(event) => setQuestion(event.target.value)} required />
        </label>
        <button disabled={status !== "ready"}>Ask</button>
      </form>
      <p id="state">{error ? error.message : status}</p>
    </>
  );
}

/** A line that breaks is an error for the SDK. A new chat reads the answer from its beginning. */
function Page({ id, messages: first }) {
  const [{ round, messages }, setChat] = useState({ round: 0, messages: first });
  const again = async () => {
    const messages = await earlier(id).catch(() => null);
    if (!messages) return setTimeout(again, AGAIN_MS);
    setChat({ round: round + 1, messages });
  };
  const onError = () => setTimeout(again, AGAIN_MS);
  return <Chat key={round} {...{ id, messages, onError }} />;
}

// The address names the chat, so a reload and a second tab show the same.
location.hash ||= crypto.randomUUID();
const id = location.hash.slice(1);
const page = <Page id={id} messages={await earlier(id)} />;
createRoot(document.querySelector("#chat")).render(page);
