// Package rig puts the services together over any table, with a queue in memory
// and faults on demand, for tests of the road from submission to done. Nothing
// in it waits or runs by itself: a test submits, delivers, ticks and looks, so
// that what lies between two calls can be tried. It is for tests only.
package rig
