// The two tools of the JavaScript applications: they really read files and really run commands.

import { execSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'

export const { URL_ROOT, KEY, MODEL, PROMPT } = process.env
export const SYSTEM = 'You read files and run commands for the user.'

const schema = (name) => ({
  type: 'object',
  properties: { [name]: { type: 'string', description: `The ${name}.` } },
  required: [name],
  additionalProperties: false,
})

export const functions = [
  { name: 'read_file', description: 'Reads a file.', schema: schema('path') },
  { name: 'run', description: 'Runs a command.', schema: schema('command') },
]

// A result: its text, whether it failed, and the image in base64 if the file was one.
export function use(name, input) {
  try {
    if (name === 'run') {
      return { text: execSync(input.command, { encoding: 'utf8' }) || '(no output)' }
    }
    const content = readFileSync(resolve(input.path))
    return input.path.endsWith('.png')
      ? { text: 'an image', image: content.toString('base64') }
      : { text: content.toString('utf8') }
  } catch (error) {
    return { text: String(error.message), failed: true }
  }
}
