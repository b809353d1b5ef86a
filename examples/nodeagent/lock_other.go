//go:build !linux

package main

import "os"

func flock(*os.File) error { return nil }
