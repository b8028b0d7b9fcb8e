"""The network: identities, connections under mutual TLS, durable state."""
