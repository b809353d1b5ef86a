//go:build !linux

package main

import "os"

func isTerminal(*os.File) bool { return false }

func sizeOf(*os.File) size { return usualSize }

func notifyResized(chan<- os.Signal) {}
