// Makes `fetch` of an older Node look at HTTPS_PROXY, as Node 24 does with NODE_USE_ENV_PROXY=1.
// Loaded by NODE_OPTIONS="--require …"; needs no package. `omniroute exec` sets it, docs/agents/node-sdks.md tells about it.
'use strict'

const [major, minor] = process.versions.node.split('.').map(Number)
const knowsProxies = major >= 24 || (major === 22 && minor >= 21)
const DISPATCHER = Symbol.for('undici.globalDispatcher.1')

function parsed(text) {
  try {
    const url = new URL(text)
    return url.protocol === 'http:' ? url : null
  } catch {
    return null
  }
}

function isExcepted(host) {
  const entries = (process.env.no_proxy || process.env.NO_PROXY || '').split(/[\s,]+/).filter(Boolean)
  return entries.some((entry) => {
    const name = entry.toLowerCase().replace(/:\d+$/, '').replace(/^\*?\./, '')
    return entry === '*' || host === name || host.endsWith('.' + name)
  })
}

// A TCP connection to the target through the proxy.
function tunnel(proxy, host, port, done) {
  const http = require('node:http')
  const name = host.includes(':') ? `[${host}]` : host
  const headers = { host: `${name}:${port}` }
  if (proxy.username) {
    const login = `${decodeURIComponent(proxy.username)}:${decodeURIComponent(proxy.password)}`
    headers['proxy-authorization'] = 'Basic ' + Buffer.from(login).toString('base64')
  }
  const request = http.request({
    host: proxy.hostname.replace(/^\[|\]$/g, ''),
    port: proxy.port || 80,
    method: 'CONNECT',
    path: `${name}:${port}`,
    headers,
    agent: false,
  })
  request.once('connect', (answer, socket) => {
    if (answer.statusCode === 200) return done(null, socket)
    socket.destroy()
    done(new Error(`the proxy ${proxy.host} answered ${answer.statusCode} to CONNECT ${name}:${port}`))
  })
  request.once('error', done)
  request.end()
}

function connector(proxy) {
  const net = require('node:net')
  const tls = require('node:tls')
  return (options, done) => {
    const host = options.hostname.replace(/^\[|\]$/g, '')
    const secure = options.protocol === 'https:'
    const port = Number(options.port) || (secure ? 443 : 80)
    let finished = false
    const finish = (error, socket) => {
      if (finished) return
      finished = true
      done(error, error ? null : socket)
    }
    if (!secure) {
      const socket = net.connect({ host, port, noDelay: true })
      return socket.once('connect', () => finish(null, socket)).once('error', finish)
    }
    const encrypt = (error, carrier) => {
      if (error) return finish(error)
      const servername = options.servername || (net.isIP(host) ? undefined : host)
      const to = carrier ? { socket: carrier } : { host, port }
      const socket = tls.connect({ ...to, servername, ALPNProtocols: ['http/1.1'] })
      socket.once('secureConnect', () => finish(null, socket)).once('error', finish)
    }
    if (isExcepted(host)) return encrypt(null, null)
    tunnel(proxy, host, port, encrypt)
  }
}

function install(proxy) {
  const builtIn = globalThis.fetch
  if (typeof builtIn !== 'function') return
  let ready = false
  // Node loads its HTTP client with the first fetch; a program that makes none must not pay for it.
  globalThis.fetch = function fetch(input, init) {
    if (!ready) {
      ready = true
      try {
        new Response(null)
        const present = globalThis[DISPATCHER]
        // Somebody who set a dispatcher of their own knows better.
        if (present && present.constructor.name === 'Agent' && !globalThis[OWN]) {
          globalThis[OWN] = new present.constructor({ connect: connector(proxy) })
          globalThis[DISPATCHER] = globalThis[OWN]
        }
      } catch {
        // fetch works as if we were not there
      }
    }
    return builtIn.call(this, input, init)
  }
}

const OWN = Symbol.for('omniroute.dispatcher')
const proxy = parsed(process.env.https_proxy || process.env.HTTPS_PROXY || '')
if (!knowsProxies && proxy) install(proxy)
