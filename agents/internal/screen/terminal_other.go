//go:build !linux

package screen

import "os"

func isTerminal(*os.File) bool { return false }

func sizeOf(*os.File) size { return usualSize }

func notifyResized(chan<- os.Signal) {}
