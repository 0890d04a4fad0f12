from slca.cli import main

main()
