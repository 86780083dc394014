// Package operate is what operators do: pause lanes, keep tenants and their
// keys, look into the quarantine, and have parts of it replayed.
//
// It guarantees that every act which changes something is written to the audit,
// with the act or before it, never after; that a key's text leaves it once, when
// the key is made; and that nothing comes out of quarantine but through
// admission.
package operate
