// An agent on the AI SDK, with the provider that the environment names; the SDK itself runs the loop.

import { createAnthropic } from '@ai-sdk/anthropic'
import { createGoogleGenerativeAI } from '@ai-sdk/google'
import { createOpenAI } from '@ai-sdk/openai'
import { createOpenAICompatible } from '@ai-sdk/openai-compatible'
import { jsonSchema, stepCountIs, streamText, tool } from 'ai'
import { functions, KEY, MODEL, PROMPT, SYSTEM, URL_ROOT, use } from './tools.mjs'

const options = { baseURL: `${URL_ROOT}/v1`, apiKey: KEY, name: 'gateway' }
const models = {
  anthropic: () => createAnthropic(options)(MODEL),
  openai_chat: () => createOpenAICompatible({ ...options, includeUsage: true })(MODEL),
  openai_responses: () => createOpenAI(options).responses(MODEL),
  gemini: () => createGoogleGenerativeAI({ ...options, baseURL: `${URL_ROOT}/v1beta` })(MODEL),
}

function asTool({ name, description, schema }) {
  const execute = (input) => {
    const done = use(name, input)
    if (done.failed) throw new Error(done.text)
    return done
  }
  const toModelOutput = ({ output }) =>
    output.image
      ? {
          type: 'content',
          value: [{ type: 'file', mediaType: 'image/png', data: { type: 'data', data: output.image } }],
        }
      : { type: 'text', value: output.text }
  return [name, tool({ description, inputSchema: jsonSchema(schema), execute, toModelOutput })]
}

const problems = []
const stream = streamText({
  model: models[process.env.DIALECT](),
  system: SYSTEM,
  prompt: PROMPT,
  tools: Object.fromEntries(functions.map(asTool)),
  stopWhen: stepCountIs(20),
  maxRetries: 0,
  onError: ({ error }) => problems.push(error),
  providerOptions: {
    anthropic: { thinking: { type: 'enabled', budgetTokens: 2048 } },
    openai: { reasoningEffort: 'medium', reasoningSummary: 'auto', store: false, include: ['reasoning.encrypted_content'] },
    google: { thinkingConfig: { includeThoughts: true, thinkingLevel: 'high' } },
  },
})
console.log(await stream.text)
for (const problem of problems) console.error(problem)
process.exit(problems.length > 0 ? 1 : 0)
