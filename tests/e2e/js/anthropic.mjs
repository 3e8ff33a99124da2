// An agent on Anthropic's JavaScript SDK: loops until the model calls no more tools, then prints its last words.

import Anthropic from '@anthropic-ai/sdk'
import { functions, KEY, MODEL, PROMPT, SYSTEM, URL_ROOT, use } from './tools.mjs'

const client = new Anthropic({ baseURL: URL_ROOT, apiKey: KEY, maxRetries: 0 })
const tools = functions.map(({ name, description, schema }) => ({ name, description, input_schema: schema }))
const messages = [{ role: 'user', content: PROMPT }]

function result(call) {
  const { text, failed = false, image } = use(call.name, call.input)
  const picture = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: image } }
  return { type: 'tool_result', tool_use_id: call.id, content: image ? [picture] : text, is_error: failed }
}

for (;;) {
  const thinking = { type: 'enabled', budget_tokens: 2048 }
  const request = { model: MODEL, max_tokens: 8192, system: SYSTEM, thinking, tools, messages }
  const reply = await client.messages.stream(request).finalMessage()
  messages.push({ role: 'assistant', content: reply.content })
  const calls = reply.content.filter((block) => block.type === 'tool_use')
  if (calls.length === 0) {
    console.log(reply.content.filter((block) => block.type === 'text').map((block) => block.text).join(''))
    break
  }
  messages.push({ role: 'user', content: calls.map(result) })
}
