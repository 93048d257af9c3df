// The protocol's own client: it creates a stream, appends to it, reads it live from the beginning
// and prints what it has read when the stream has ended.
import { DurableStream, stream } from "@durable-streams/client"

const url = process.argv[2]
const contentType = "application/json"
const written = await DurableStream.create({ url, contentType })
await written.append(JSON.stringify({ word: "Hello" }))
const read = await stream({ url, offset: "-1", live: process.argv[3], json: true })
await written.append(JSON.stringify({ word: "world" }))
await written.close()
const all = []
for await (const message of read.jsonStream()) {
  all.push(message)
}
console.log(JSON.stringify(all))
