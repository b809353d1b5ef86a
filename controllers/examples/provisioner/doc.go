// Provisioner shows storage on demand: a claim becomes a directory, and the directory goes with the claim.
//
//	go run ./controllers/examples/provisioner
//
// The file directories.go is the provisioner, as for a real cluster; main.go runs it on a cluster in memory (package
// apitest), and takes the steps of a user. Copy both: they import public packages only.
package main
