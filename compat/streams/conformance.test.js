// The package's own program finds no test, since vitest does not look below node_modules.
import { runConformanceTests } from "@durable-streams/server-conformance-tests"

runConformanceTests({ baseUrl: process.env.STREAMS_URL })
