// An agent on Google's JavaScript SDK.

import { GoogleGenAI } from '@google/genai'
import { functions, KEY, MODEL, PROMPT, SYSTEM, URL_ROOT, use } from './tools.mjs'

const client = new GoogleGenAI({ apiKey: KEY, httpOptions: { baseUrl: URL_ROOT } })
const declarations = functions.map(({ name, description, schema }) => ({
  name,
  description,
  parametersJsonSchema: schema,
}))
const config = {
  systemInstruction: SYSTEM,
  tools: [{ functionDeclarations: declarations }],
  thinkingConfig: { includeThoughts: true, thinkingLevel: 'HIGH' },
}
const contents = [{ role: 'user', parts: [{ text: PROMPT }] }]

function answer({ id, name, args }) {
  const { text, failed, image } = use(name, args)
  const parts = image ? [{ inlineData: { mimeType: 'image/png', data: image } }] : undefined
  return { functionResponse: { id, name, response: { [failed ? 'error' : 'output']: text }, parts } }
}

for (;;) {
  const parts = []
  for await (const chunk of await client.models.generateContentStream({ model: MODEL, contents, config })) {
    // An empty text belongs into the history only if it is signed.
    const news = chunk.candidates?.[0]?.content?.parts ?? []
    parts.push(...news.filter((part) => part.text !== '' || part.thoughtSignature))
  }
  contents.push({ role: 'model', parts })
  const calls = parts.filter((part) => part.functionCall).map((part) => part.functionCall)
  if (calls.length === 0) {
    console.log(parts.filter((part) => part.text && !part.thought).map((part) => part.text).join(''))
    break
  }
  contents.push({ role: 'user', parts: calls.map(answer) })
}
