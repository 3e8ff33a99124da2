// An agent on OpenAI's JavaScript SDK, over Chat Completions.

import OpenAI from 'openai'
import { functions, KEY, MODEL, PROMPT, SYSTEM, URL_ROOT, use } from './tools.mjs'

const client = new OpenAI({ baseURL: `${URL_ROOT}/v1`, apiKey: KEY, maxRetries: 0 })
const tools = functions.map(({ name, description, schema }) => ({
  type: 'function',
  function: { name, description, parameters: schema, strict: true },
}))
const messages = [
  { role: 'system', content: SYSTEM },
  { role: 'user', content: PROMPT },
]

for (;;) {
  const request = { model: MODEL, messages, tools, stream: true, stream_options: { include_usage: true } }
  const reply = await client.chat.completions.stream(request).finalMessage()
  messages.push(reply)
  if (!reply.tool_calls?.length) {
    console.log(reply.content)
    break
  }
  const pictures = []
  for (const call of reply.tool_calls) {
    const { text, image } = use(call.function.name, JSON.parse(call.function.arguments))
    messages.push({ role: 'tool', tool_call_id: call.id, content: text })
    if (image) pictures.push({ type: 'image_url', image_url: { url: `data:image/png;base64,${image}` } })
  }
  if (pictures.length > 0) messages.push({ role: 'user', content: pictures })
}
