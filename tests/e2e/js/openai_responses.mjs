// An agent on OpenAI's JavaScript SDK, over Responses, without state on the server.

import OpenAI from 'openai'
import { functions, KEY, MODEL, PROMPT, SYSTEM, URL_ROOT, use } from './tools.mjs'

const client = new OpenAI({ baseURL: `${URL_ROOT}/v1`, apiKey: KEY, maxRetries: 0 })
const tools = functions.map(({ name, description, schema }) => ({
  type: 'function',
  name,
  description,
  parameters: schema,
  strict: true,
}))
const input = [{ role: 'user', content: PROMPT }]

function output(call) {
  const { text, image } = use(call.name, JSON.parse(call.arguments))
  const picture = { type: 'input_image', image_url: `data:image/png;base64,${image}`, detail: 'auto' }
  return { type: 'function_call_output', call_id: call.call_id, output: image ? [picture] : text }
}

for (;;) {
  const reply = await client.responses
    .stream({
      model: MODEL,
      instructions: SYSTEM,
      input,
      tools,
      reasoning: { effort: 'medium', summary: 'auto' },
      include: ['reasoning.encrypted_content'],
      store: false,
    })
    .finalResponse()
  // The helper adds what it parsed to the items; the API would refuse that.
  input.push(...reply.output.map(({ parsed_arguments: _, ...item }) => item))
  const calls = reply.output.filter((item) => item.type === 'function_call')
  if (calls.length === 0) {
    console.log(reply.output_text)
    break
  }
  input.push(...calls.map(output))
}
