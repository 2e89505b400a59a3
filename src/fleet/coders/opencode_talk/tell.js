// An OpenCode plugin: what OpenCode does in a terminal, told to the program that FLEET_TELL names, one call each.
//
// The names are those of Claude Code's hooks, so that one reader understands both. OpenCode keeps no transcript in a
// file: what it said, did and used is told as well, in the lines of `opencode run --format json`.
import { spawnSync } from "node:child_process"

export const FleetTells = async () => {
  const command = JSON.parse(process.env.FLEET_TELL ?? "[]")
  if (!command.length) return {}
  const below = new Set() // sessions of subagents
  const calls = new Map() // what each running call of a tool was called with
  const asked = new Map() // what each open question is about
  const told = new Set() // parts of messages that are complete, and were told

  const tell = (name, session, more = {}) => {
    const fact = { hook_event_name: name, session_id: session, transcript_path: command.at(-1), ...more }
    spawnSync(command[0], command.slice(1), { input: JSON.stringify(fact), timeout: 5000 })
  }
  const call = (tool, args) => ({ tool_name: tool, tool_input: args })
  const ask = (id, session, about) => {
    asked.set(id, about)
    tell("PermissionRequest", session, about)
  }
  const answered = (id, session) => {
    if (asked.has(id)) tell("PostToolUse", session, asked.get(id))
    asked.delete(id)
  }
  const isWhole = (part) =>
    part.type === "step-finish" ||
    (part.type === "text" && part.time?.end && !part.synthetic) ||
    (part.type === "tool" && ["completed", "error"].includes(part.state?.status))
  const kinds = { "step-finish": "step_finish", text: "text", tool: "tool_use" }

  const happened = {
    "session.created": ({ info }) => info.parentID && below.add(info.id),
    "session.idle": ({ sessionID }) => below.has(sessionID) || tell("Stop", sessionID),
    "permission.asked": ({ id, sessionID, permission, metadata, tool }) =>
      ask(id, sessionID, calls.get(tool?.callID) ?? call(permission, metadata)),
    "permission.replied": ({ requestID, permissionID, sessionID }) => answered(requestID ?? permissionID, sessionID),
    "question.asked": ({ id, sessionID, questions }) =>
      ask(id, sessionID, call("question", { query: questions?.[0]?.question ?? "" })),
    "question.replied": ({ requestID, sessionID }) => answered(requestID, sessionID),
    "question.rejected": ({ requestID, sessionID }) => answered(requestID, sessionID),
    "message.part.updated": ({ part }) => {
      if (!isWhole(part) || told.has(part.id)) return
      told.add(part.id)
      tell("Line", part.sessionID, { line: { type: kinds[part.type], sessionID: part.sessionID, part } })
    },
  }

  return {
    event: async ({ event }) => void happened[event.type]?.(event.properties),
    "chat.message": async ({ sessionID }, { parts }) => {
      const words = parts.filter((part) => part.type === "text" && !part.synthetic).map((part) => part.text)
      if (!below.has(sessionID)) tell("UserPromptSubmit", sessionID, { prompt: words.join("\n") })
    },
    "tool.execute.before": async ({ tool, sessionID, callID }, { args }) => {
      calls.set(callID, call(tool, args))
      tell("PreToolUse", sessionID, calls.get(callID))
    },
    "tool.execute.after": async ({ sessionID, callID }) => {
      tell("PostToolUse", sessionID, calls.get(callID))
      calls.delete(callID)
    },
  }
}
