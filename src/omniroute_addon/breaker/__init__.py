"""The provider circuit breaker (`spec/01`): everything that only it needs. The plugin is `plugins/circuit_breaker.py`.

| module | what it holds |
|---|---|
| `table` | the theory, the states, the events, and what follows from each pair |
| `machine` | `Breaker`, the remembered value, and the pure functions that move it along the table |
| `figures` | thresholds, holds and quiet windows of one provider under the settings in force |
| `stored` | a `Breaker` as the store keeps it |
| `registry` | all breakers of a proxy over the store, with permits for probes |
| `dead_network` | telling our own dead network from many dead providers |
| `diagram` | the table as the documentation shows it |
"""
