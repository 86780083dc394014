// Package kill tests the embedded engine as a process that dies: it is killed
// with SIGKILL amid work, started again on its file, and what clients were told and what
// handlers wrote down for themselves is held against what the system says in the end.
package kill
