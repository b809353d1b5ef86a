//go:build !linux

package contract

func (c *contract) plantedLink()          { c.skipPlants() }
func (c *contract) plantedHardLink()      { c.skipPlants() }
func (c *contract) plantedFIFO()          { c.skipPlants() }
func (c *contract) plantedDirectoryLink() { c.skipPlants() }

func (c *contract) skipPlants() { c.Skip("a pod that replaces files is tested on Linux alone") }
