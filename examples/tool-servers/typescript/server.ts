// A tool server in TypeScript: two tools, with schemas of their arguments and results that give them their types too.
// Nothing but the protocol may stand on stdout; whatever else there is to say goes to stderr.

import { McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

const Temperature = z.object({
  degrees: z.number().describe('How many degrees'),
  unit: z.enum(['Celsius', 'Fahrenheit']).describe('The unit that they are in'),
});
const Text = z.object({ text: z.string().describe('Words with spaces between them') });
const Word = z.object({ word: z.string() });

// Models read the text, programs the structure.
function answer(structuredContent: Record<string, unknown>) {
  return { content: [{ type: 'text' as const, text: JSON.stringify(structuredContent) }], structuredContent };
}

function template(): McpServer {
  const server = new McpServer({ name: 'template-typescript', version: '1.0.0' });

  server.registerTool(
    'convert_temperature',
    {
      description: 'Converts a temperature to the other unit',
      inputSchema: Temperature,
      outputSchema: Temperature,
      annotations: { readOnlyHint: true },
    },
    ({ degrees, unit }) => {
      if (unit === 'Celsius') return answer({ degrees: degrees * 1.8 + 32, unit: 'Fahrenheit' });
      return answer({ degrees: (degrees - 32) / 1.8, unit: 'Celsius' });
    },
  );

  server.registerTool(
    'longest_word',
    {
      description: 'Finds the longest word of a text',
      inputSchema: Text,
      outputSchema: Word,
      annotations: { readOnlyHint: true },
    },
    ({ text }) => {
      const [longest] = text.split(/\s+/).filter(Boolean).sort((one, other) => other.length - one.length);
      if (longest === undefined) throw new Error('the text has no word');
      return answer({ word: longest });
    },
  );

  return server;
}

// Callers of either era are served: those that begin with `initialize`, and those that do not.
serveStdio(template);
