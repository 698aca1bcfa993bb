((function_declaration name: (identifier) @name) @test
  (#match? @name "^(Test|Fuzz|Example)"))
