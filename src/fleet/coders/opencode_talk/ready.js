// A plugin of OpenCode's terminal: it tells when the prompt can be written to, and when the terminal is left.
import { spawnSync } from "node:child_process"

const PAUSE = 20 // milliseconds

const tui = async (api) => {
  const command = JSON.parse(process.env.FLEET_TELL ?? "[]")
  if (!command.length) return
  const tell = (name) => {
    const fact = { hook_event_name: name, transcript_path: command.at(-1) }
    spawnSync(command[0], command.slice(1), { input: JSON.stringify(fact), timeout: 5000 })
  }
  const look = () => {
    if (!api.state.ready || !api.renderer.currentFocusedRenderable) return
    clearInterval(timer)
    tell("SessionStart")
  }
  const timer = setInterval(look, PAUSE)
  api.lifecycle.onDispose(() => {
    clearInterval(timer)
    tell("SessionEnd")
  })
}

export default { id: "fleet-ready", tui }
